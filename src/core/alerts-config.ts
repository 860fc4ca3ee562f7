/** Where alerts are posted, and which shares of spend limits are reported. Plain data; never log the secret. */

export interface AlertsConfig {
  /** https, or http to this machine. It may hold a credential in its path or query. */
  readonly webhook: string
  /** The key of the signatures. */
  readonly secret: string
  /** Shares of each spend limit, above 0 and up to 1, ascending. */
  readonly spend: readonly number[]
  /** True if the runtime's `fetch` carries the alerts: through a proxy, or because the operator chose it. */
  readonly viaFetch: boolean
}
