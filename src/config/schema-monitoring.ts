/** The schema of what weir reports of itself: log, traces, alerts and metrics. */

import { Type } from '@sinclair/typebox'
import { HOOK_FORMATS } from '../core/alerts-config.ts'
import {
  boolean,
  glob,
  object,
  oneOf,
  optional,
  optionals,
  pattern,
  secret,
  unbroken,
  withDefault,
} from './field-types.ts'
import { headers } from './schema-models.ts'

export const log = object(
  {
    format: oneOf(
      ['json', 'pretty', 'auto'],
      'The form of log lines: `json`; `pretty`, one line of words each; or `auto`, which is `pretty` on a terminal ' +
        'and `json` elsewhere',
      'auto',
    ),
  },
  { description: 'The log, on standard output' },
)

export const tracing = object(
  optionals({
    endpoint: unbroken(
      'The address of a collector that takes OTLP over HTTP. weir appends `/v1/traces` unless the address ends ' +
        'with it. Without it: `OTEL_EXPORTER_OTLP_ENDPOINT` of the environment',
    ),
    sample: Type.Number({
      minimum: 0,
      maximum: 1,
      description:
        'The share of the requests without a `traceparent` that weir traces: `0` is none, `1` all. With a ' +
        '`traceparent`, its sampled flag decides. Without it: the share of `OTEL_TRACES_SAMPLER`, else 0.01',
    }),
    headers: headers('Headers that weir sends to the collector, such as a credential'),
  }),
  {
    description:
      'Traces for OpenTelemetry. weir sends none without this section or `OTEL_EXPORTER_OTLP_ENDPOINT` in the ' +
      'environment',
  },
)

/** Long enough that it cannot be guessed. */
const alertSecret = secret(
  pattern(
    '^[\\x21-\\x7e]{16,256}$',
    'must be 16 to 256 printable ASCII characters without spaces (openssl rand -hex 32)',
    'The key of the signature in the header `weir-signature`, 16 to 256 printable characters',
  ),
)

const alertHook = object({
  url: secret(
    unbroken(
      'The address: `https`, or `http` to this machine; of an Alertmanager without `secret` also `http`. Problems ' +
        'never show it',
    ),
  ),
  format: oneOf(
    HOOK_FORMATS,
    "What is posted: `weir` (weir's own JSON, signed), or what Slack, an Alertmanager or PagerDuty takes",
    'weir',
  ),
  events: withDefault(
    Type.Array(glob, { minItems: 1, description: 'The types of alerts that are posted here, as patterns' }),
    ['*'],
  ),
  secret: optional(
    secret(
      pattern(
        '^[\\x21-\\x7e]{16,256}$',
        'must be 16 to 256 printable ASCII characters without spaces',
        '`weir`: the key of the signature in the header `weir-signature`; `pagerduty`: the integration key; ' +
          '`alertmanager`: a bearer token, if it needs one; `slack`: none, the address is the secret',
      ),
    ),
  ),
})

export const alerts = object(
  {
    webhook: optional(
      secret(
        unbroken(
          'An address that weir posts all alerts to in its own format: `https`, or `http` to this machine. It is ' +
            'one more of `hooks`. Problems never show it',
        ),
      ),
    ),
    secret: optional(alertSecret),
    hooks: withDefault(
      Type.Array(alertHook, { maxItems: 16, description: 'The places that alerts are posted to, each on its own' }),
      [],
    ),
    spend: withDefault(
      Type.Array(Type.Number({ exclusiveMinimum: 0, maximum: 1, description: 'A share: `0.8` is 80 %' }), {
        maxItems: 20,
        description:
          'Shares of the spend limits of organisations and keys, ascending. weir sends an alert when spend has ' +
          'reached one, once in each day or month. Without shares it sends no such alerts',
      }),
      [],
    ),
  },
  {
    description:
      'Alerts to webhooks: about spend, targets, models, credentials of providers, the ledger, the disk, workers, ' +
      'reloads and keys that expire. See [alerts](alerts.md)',
  },
)

export const metrics = object(
  {
    key_label: boolean(
      'Adds the label `key`, the id of the API key, to the metrics of requests, tokens and cost. The first 2,000 ' +
        'keys have series of their own, the others share `(other)`',
      false,
    ),
  },
  { description: 'The metrics of the admin port' },
)
