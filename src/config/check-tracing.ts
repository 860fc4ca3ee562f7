/** Checks of `tracing` and of what belongs to it, beyond the schema; with warnings about the environment. */

import type { Check } from './check-context.ts'
import { checkHeaders } from './check-providers.ts'
import { asksForGrpc, endpointProblem, environmentProblems, environmentTracing } from './otel-environment.ts'

/** The port on which collectors take OTLP over gRPC. */
const GRPC_PORT = '4317'
/** What weir's requests to a collector are. */
const OWN_HEADERS: readonly string[] = ['content-type', 'content-encoding']

export function checkTracing(check: Check): void {
  const { file, problems, env } = check
  const { tracing } = file
  if (tracing !== undefined) {
    checkEndpoint(check, tracing.endpoint)
    checkHeaders(Object.keys(tracing.headers ?? {}), ['tracing', 'headers'], problems, OWN_HEADERS)
  }
  for (const problem of environmentProblems(env)) problems.warn(['tracing'], problem)
  const { url } = environmentTracing(env)
  const isOn = tracing !== undefined || url !== undefined
  const isForGrpc = asksForGrpc(env) || (url !== undefined && new URL(url).port === GRPC_PORT)
  if (isOn && tracing?.endpoint === undefined && isForGrpc) {
    problems.warn(
      ['tracing'],
      'the variables of OpenTelemetry ask for OTLP over gRPC (protocol grpc or port 4317), and weir sends it over ' +
        'HTTP; set tracing.endpoint to the HTTP port of the collector, usually 4318',
    )
  }
  for (const [name, provider] of Object.entries(file.providers ?? {})) {
    if (provider?.propagate_trace === true && !isOn)
      problems.warn(['providers', name, 'propagate_trace'], 'has no effect without tracing; configure tracing')
  }
}

function checkEndpoint({ problems, env }: Check, endpoint: string | undefined): void {
  const path = ['tracing', 'endpoint']
  if (endpoint === undefined) {
    if (environmentTracing(env).url === undefined)
      problems.add(
        path,
        'is missing; name a collector, such as http://127.0.0.1:4318, or set OTEL_EXPORTER_OTLP_ENDPOINT',
      )
    return
  }
  const problem = endpointProblem(endpoint)
  if (problem !== undefined) problems.add(path, problem)
  else if (new URL(endpoint).port === GRPC_PORT)
    problems.warn(path, 'port 4317 is usually that of OTLP over gRPC, and weir sends OTLP over HTTP; use 4318')
}
