/** Where traces go and which requests are traced. Plain data; headers may be credentials and are never logged. */

export interface TracingConfig {
  /** The address that spans are posted to, with its path. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** The share of the requests without a `traceparent` that are traced, from 0 to 1. */
  readonly sample: number
  /** Attributes of the process that sends the spans; `service.name` is always there. */
  readonly resource: Readonly<Record<string, string>>
}
