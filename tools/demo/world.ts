/**
 * What the demo simulates: providers, models, organisations and how many requests each sends. The same plan makes the
 * hour before the start and the traffic after it.
 */

/** Dollars per million tokens, input and output. */
export const MODELS = {
  'gpt-5-mini': { targets: ['openai', 'azure'], price: [0.25, 2], share: 5 },
  'gpt-5': { targets: ['openai', 'azure'], price: [1.25, 10], share: 2 },
  'mistral-large': { targets: ['mistral'], price: [2, 6], share: 2 },
  'llama-70b': { targets: ['local', 'mistral'], price: [0.6, 0.6], share: 3 },
} as const

export type ModelName = keyof typeof MODELS

interface KeyPlan {
  readonly id: string
  /** How many of the requests are its own, compared to the other keys. */
  readonly share: number
  /** Lines of the configuration, in the braces of the key. */
  readonly settings?: string
}

export interface OrganizationPlan {
  readonly id: string
  /** `limits:` of the configuration. `DAY*2` is replaced by twice the dollars of the day so far. */
  readonly limits?: string
  readonly keys: readonly KeyPlan[]
}

const DAY_MS = 86_400_000
const inNineDays = new Date(Date.now() + 9 * DAY_MS).toISOString().slice(0, 10)

export const ORGANIZATIONS: readonly OrganizationPlan[] = [
  {
    id: 'acme',
    limits: 'requests_per_minute: 900, spend: { day: DAY*1.45, month: DAY*3.1 }',
    keys: [
      { id: 'web', share: 6 },
      { id: 'ci', share: 2, settings: 'limits: { requests_per_minute: 25 }' },
      { id: 'batch', share: 3 },
    ],
  },
  {
    id: 'globex',
    limits: 'tokens_per_minute: 400000, concurrent_requests: 60, spend: { month: DAY*1.9 }',
    keys: [
      { id: 'support-bot', share: 5 },
      { id: 'agents', share: 3 },
    ],
  },
  { id: 'initech', limits: 'spend: { day: DAY*1.08 }', keys: [{ id: 'reports', share: 2 }] },
  { id: 'umbrella', limits: 'requests_per_minute: 32', keys: [{ id: 'research', share: 3 }] },
  {
    id: 'hooli',
    limits: 'spend: { total: DAY*4 }',
    keys: [{ id: 'pilot', share: 1, settings: `expires_at: ${inNineDays}` }],
  },
]

/** One request as it is planned. */
export interface PlannedRequest {
  readonly organization: string
  readonly key: string
  readonly model: ModelName
  readonly inputTokens: number
  readonly outputTokens: number
  readonly streamed: boolean
}

/** A number from 0 up to, not including, 1. */
export type Random = () => number

/** Requests a second: waves of half an hour and of six minutes. */
export function rateAt(ms: number): number {
  const minutes = ms / 60_000
  return 6 + 2.4 * Math.sin(minutes / 4.8) + 1.1 * Math.sin(minutes / 0.95)
}

export function plan(random: Random): PlannedRequest {
  const keys = ORGANIZATIONS.flatMap(({ id, keys }) => keys.map((key) => ({ ...key, organization: id })))
  const { organization, id } = drawn(keys, ({ share }) => share, random)
  const [model] = drawn(entriesOf(MODELS), ([, { share }]) => share, random)
  return {
    organization,
    key: id,
    model,
    inputTokens: Math.round(spread(700, random)),
    outputTokens: Math.round(Math.min(600, spread(90, random))),
    streamed: random() < 0.7,
  }
}

export function costOf({ model, inputTokens, outputTokens }: PlannedRequest): number {
  const [input, output] = MODELS[model].price
  return Math.round(inputTokens * input + outputTokens * output)
}

/** The key that the caller of this organisation sends. It opens nothing but the demo. */
export function secretOf(organization: string, key: string): string {
  return `demo-${organization}-${key}-0123456789`
}

/** Around a middle, with few values that are several times as large. */
export function spread(middle: number, random: Random): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  return middle * Math.exp(0.7 * normal)
}

function drawn<T>(items: readonly T[], shareOf: (item: T) => number, random: Random): T {
  let left = random() * items.reduce((sum, item) => sum + shareOf(item), 0)
  const found = items.find((item) => {
    left -= shareOf(item)
    return left < 0
  })
  if (found === undefined) throw new Error('nothing to draw from')
  return found
}

function entriesOf<T extends object>(table: T): readonly (readonly [keyof T, T[keyof T]])[] {
  return Object.keys(table).flatMap((name) => (isKey(table, name) ? [[name, table[name]] as const] : []))
}

function isKey<T extends object>(table: T, name: PropertyKey): name is keyof T {
  return name in table
}
