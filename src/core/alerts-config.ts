/** Where alerts are posted, and which shares of spend limits are reported. Plain data; addresses are secrets, too. */

/** The types of alerts; `alerts/alert.ts` has what each is. */
export const ALERT_NAMES = [
  'spend.threshold',
  'spend.refusing',
  'provider.credential_rejected',
  'provider.credit_exhausted',
  'target.open',
  'model.down',
  'ledger.down',
  'ledger.up',
  'disk.full',
  'reload.rejected',
  'worker.died',
  'fleet.mixed',
  'key.expiring',
  'test',
] as const

/** What a hook takes: weir's own JSON, or what another service defines. */
export const HOOK_FORMATS = ['weir', 'slack', 'alertmanager', 'pagerduty'] as const

export interface HookConfig {
  /** Names its queue on disk: the same as long as the hook is. */
  readonly key: string
  /** For the operator: its place in the configuration and its format. */
  readonly label: string
  readonly format: (typeof HOOK_FORMATS)[number]
  /** It may hold a credential in its path or query. */
  readonly url: string
  /**
   * `weir`: the key of the signatures; `alertmanager`: a bearer token, if there is one; `pagerduty`: the integration
   * key. Hooks of Slack have none.
   */
  readonly secret?: string | undefined
  /** Globs over the types of alerts that it gets. */
  readonly events: readonly string[]
}

export interface AlertsConfig {
  readonly hooks: readonly HookConfig[]
  /** Shares of each spend limit, above 0 and up to 1, ascending. */
  readonly spend: readonly number[]
}
