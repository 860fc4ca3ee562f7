/**
 * What the environment variables of OpenTelemetry say about traces. The specification of OpenTelemetry names them and
 * their precedence; an unusable value counts as not set, and `weir check` warns of it.
 */

import { UNREADABLE_ADDRESS } from './problems.ts'

type Env = Readonly<Record<string, string | undefined>>

/** Each is absent if the environment does not say. */
interface EnvironmentTracing {
  /** With its path. */
  readonly url: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly sample: number | undefined
  /** `service.name` is always there. */
  readonly resource: Readonly<Record<string, string>>
  /** The environment forbids traces. The file may demand them all the same. */
  readonly isDisabled: boolean
}

const TRACES_PATH = '/v1/traces'
const SERVICE_NAME = 'weir'

export function environmentTracing(env: Env): EnvironmentTracing {
  const service = set(env, 'OTEL_SERVICE_NAME')
  return {
    url: urlOf(env),
    headers: headersOf({
      ...pairs(env, 'OTEL_EXPORTER_OTLP_HEADERS'),
      ...pairs(env, 'OTEL_EXPORTER_OTLP_TRACES_HEADERS'),
    }),
    sample: sampleOf(env),
    resource: {
      'service.name': SERVICE_NAME,
      ...pairs(env, 'OTEL_RESOURCE_ATTRIBUTES'),
      ...(service === undefined ? {} : { 'service.name': service }),
    },
    isDisabled: env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none',
  }
}

/** The address that spans are posted to. An address that is already one of traces stays as it is. */
export function tracesUrl(endpoint: string): string {
  const address = new URL(endpoint).href.replace(/\/+$/, '')
  return address.endsWith(TRACES_PATH) ? address : `${address}${TRACES_PATH}`
}

/** Why an address cannot be one of a collector or provider; undefined if it can. `instead`: of a password in it. */
export function endpointProblem(endpoint: string, instead = 'headers'): string | undefined {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  if (!/^https?:\/\//i.test(endpoint)) return 'must be an address that begins with https:// or http://'
  if (url === undefined) return UNREADABLE_ADDRESS
  if (url.username !== '' || url.password !== '') return `must not contain a user name or password; use ${instead}`
  return /[?#]/.test(endpoint) ? 'must not contain a query or fragment' : undefined
}

/** The variables that name a collector, the first before the second, with what is wrong with them. */
export function environmentProblems(env: Env): readonly string[] {
  const addresses = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'].flatMap((name) => {
    const problem = endpointProblem(set(env, name) ?? 'http://localhost')
    return problem === undefined ? [] : [`${name} ${problem}; weir ignores it`]
  })
  const sampler = set(env, 'OTEL_TRACES_SAMPLER')
  const isUnknown = sampler !== undefined && sampleOf(env) === undefined
  return isUnknown
    ? [...addresses, `OTEL_TRACES_SAMPLER or OTEL_TRACES_SAMPLER_ARG is not one that weir knows; set tracing.sample`]
    : addresses
}

/** Whether the environment asks for gRPC, which weir does not speak. */
export function asksForGrpc(env: Env): boolean {
  return (set(env, 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL') ?? set(env, 'OTEL_EXPORTER_OTLP_PROTOCOL')) === 'grpc'
}

/** The address of traces is taken as it is; to the one of all signals the path is appended. */
function urlOf(env: Env): string | undefined {
  const own = set(env, 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT')
  if (own !== undefined && endpointProblem(own) === undefined) return new URL(own).href
  const common = set(env, 'OTEL_EXPORTER_OTLP_ENDPOINT')
  return common === undefined || endpointProblem(common) !== undefined ? undefined : tracesUrl(common)
}

function sampleOf(env: Env): number | undefined {
  switch (set(env, 'OTEL_TRACES_SAMPLER')?.replace(/^parentbased_/, '')) {
    case 'always_on':
      return 1
    case 'always_off':
      return 0
    case 'traceidratio': {
      const share = Number(set(env, 'OTEL_TRACES_SAMPLER_ARG') ?? '1')
      return share >= 0 && share <= 1 ? share : undefined
    }
    default:
      return undefined
  }
}

/** `name=value,name=value`, values percent-encoded. A pair that cannot be read is left out. */
function pairs(env: Env, variable: string): Readonly<Record<string, string>> {
  const found = (set(env, variable) ?? '').split(',').flatMap((pair) => {
    const at = pair.indexOf('=')
    const name = pair.slice(0, Math.max(0, at)).trim()
    const value = decoded(pair.slice(at + 1).trim())
    return name === '' || value === undefined ? [] : [[name, value] as const]
  })
  return Object.fromEntries(found)
}

/** Names in lower case; what cannot be sent as a header is left out. */
function headersOf(values: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const usable = Object.entries(values).filter(
    ([name, value]) => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && /^[\t\x20-\x7e]*$/.test(value),
  )
  return Object.fromEntries(usable.map(([name, value]) => [name.toLowerCase(), value]))
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** An empty variable counts as not set. */
function set(env: Env, name: string): string | undefined {
  const value = env[name]?.trim()
  return value === '' ? undefined : value
}
