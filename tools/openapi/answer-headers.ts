/** The headers of answers in the reference. */

import { rateLimits } from '../../src/core/limits.ts'

interface Header {
  readonly description: string
  readonly required?: boolean
  readonly schema: object
}

const text = { type: 'string' } as const
const whole = { type: 'integer', minimum: 0 } as const

const limited: Readonly<Record<string, Header>> = Object.fromEntries(
  rateLimits.flatMap(({ header, noun }) => [
    [`x-ratelimit-limit-${header}`, { description: `The limit of ${noun}, if one applies.`, schema: whole }],
    [`x-ratelimit-remaining-${header}`, { description: 'How much of it is left.', schema: whole }],
    [
      `x-ratelimit-reset-${header}`,
      {
        description: 'When it will be full again: `120ms`, `1.5s`, `1m0s`.',
        schema: { type: 'string', pattern: '^(?:\\d+m)?\\d+(?:\\.\\d+)?(?:ms|s)$' },
      },
    ],
  ]),
)

export const headerComponents: Readonly<Record<string, Header>> = {
  'x-request-id': {
    description: 'The id of the request. The operator finds it in the log by this id.',
    required: true,
    schema: text,
  },
  'request-id': { description: 'The same as `x-request-id`, for SDKs of Anthropic.', required: true, schema: text },
  'X-Gateway-Requested-Model': { description: 'The `model` of the request.', required: true, schema: text },
  'X-Gateway-Served-Model': {
    description: 'The public name of the model that answered.',
    required: true,
    schema: text,
  },
  'X-Gateway-Fallback-Count': {
    description: 'How many candidates failed or were resting before the one that answered. 0: the first one answered.',
    required: true,
    schema: whole,
  },
  'X-Gateway-Route': {
    description: 'The candidates and their outcomes, if the operator set `explain_header`.',
    schema: text,
  },
  ...limited,
  'retry-after': {
    description: 'Whole seconds to wait before a retry. Absent if no waiting helps.',
    schema: { type: 'integer', minimum: 1, maximum: 60 },
  },
  'x-should-retry': {
    description: '`false`: a retry cannot help. SDKs honour it.',
    schema: { type: 'string', enum: ['false'] },
  },
  'www-authenticate': { description: 'The form of authentication.', schema: { type: 'string', enum: ['Bearer'] } },
  'cache-control': {
    description: '`no-store` for errors, `no-cache` for streams.',
    required: true,
    schema: { type: 'string', enum: ['no-store', 'no-cache'] },
  },
}

/** References to headers of the document. */
export function headerRefs(...names: readonly string[]): object {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

const LIMITS = Object.keys(limited)

/** The headers of an answer that a model gave. */
export const SERVED_HEADERS = headerRefs(
  ...['x-request-id', 'request-id'],
  ...['X-Gateway-Requested-Model', 'X-Gateway-Served-Model', 'X-Gateway-Fallback-Count', 'X-Gateway-Route'],
  ...LIMITS,
)

/** The headers of an answer that counts against limits, but that no model gave. */
export const COUNTED_HEADERS = headerRefs('x-request-id', 'request-id', ...LIMITS)

/** The headers of every other answer. */
export const PLAIN_HEADERS = headerRefs('x-request-id', 'request-id')
