/**
 * A collector of the test's own: takes OTLP over HTTP, decodes it with the schema of OTLP and protobuf.js, which shares
 * no code with what encodes it, and answers as the test wants.
 */

import { parse } from 'protobufjs'

/** The messages of `opentelemetry/proto/collector/trace/v1/trace_service.proto` and what they hold. */
const { root } = parse(
  `
  syntax = "proto3";
  message ExportTraceServiceRequest { repeated ResourceSpans resource_spans = 1; }
  message ExportTraceServiceResponse { ExportTracePartialSuccess partial_success = 1; }
  message ExportTracePartialSuccess { int64 rejected_spans = 1; string error_message = 2; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; string schema_url = 3; }
  message Resource { repeated KeyValue attributes = 1; uint32 dropped_attributes_count = 2; }
  message ScopeSpans { InstrumentationScope scope = 1; repeated Span spans = 2; string schema_url = 3; }
  message InstrumentationScope {
    string name = 1; string version = 2; repeated KeyValue attributes = 3; uint32 dropped_attributes_count = 4;
  }
  message Span {
    bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4; fixed32 flags = 16;
    string name = 5;
    enum SpanKind {
      SPAN_KIND_UNSPECIFIED = 0; SPAN_KIND_INTERNAL = 1; SPAN_KIND_SERVER = 2; SPAN_KIND_CLIENT = 3;
      SPAN_KIND_PRODUCER = 4; SPAN_KIND_CONSUMER = 5;
    }
    SpanKind kind = 6;
    fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
    repeated KeyValue attributes = 9; uint32 dropped_attributes_count = 10;
    message Event {
      fixed64 time_unix_nano = 1; string name = 2; repeated KeyValue attributes = 3;
      uint32 dropped_attributes_count = 4;
    }
    repeated Event events = 11; uint32 dropped_events_count = 12;
    message Link {
      bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; repeated KeyValue attributes = 4;
      uint32 dropped_attributes_count = 5; fixed32 flags = 6;
    }
    repeated Link links = 13; uint32 dropped_links_count = 14;
    Status status = 15;
  }
  message Status {
    string message = 2;
    enum StatusCode { STATUS_CODE_UNSET = 0; STATUS_CODE_OK = 1; STATUS_CODE_ERROR = 2; }
    StatusCode code = 3;
  }
  message AnyValue {
    oneof value {
      string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;
      ArrayValue array_value = 5; KeyValueList kvlist_value = 6; bytes bytes_value = 7;
    }
  }
  message ArrayValue { repeated AnyValue values = 1; }
  message KeyValueList { repeated KeyValue values = 1; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  `,
  { keepCase: true },
)
const requestType = root.lookupType('ExportTraceServiceRequest')
const responseType = root.lookupType('ExportTraceServiceResponse')

type Value = string | number | boolean | readonly Value[]

export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  /** '' for a span without a parent. */
  readonly parentId: string
  readonly state: string
  readonly flags: number
  readonly name: string
  readonly kind: 'server' | 'client'
  /** Unix nanoseconds. */
  readonly start: bigint
  readonly end: bigint
  readonly isError: boolean
  readonly attributes: Readonly<Record<string, Value>>
  readonly resource: Readonly<Record<string, Value>>
}

interface AnyValue {
  readonly string_value?: string
  readonly bool_value?: boolean
  readonly int_value?: string
  readonly double_value?: number
  readonly array_value?: { readonly values?: readonly AnyValue[] }
}

interface KeyValue {
  readonly key: string
  readonly value: AnyValue
}

interface SpanMessage {
  readonly trace_id: Uint8Array
  readonly span_id: Uint8Array
  readonly parent_span_id?: Uint8Array
  readonly trace_state?: string
  readonly flags?: number
  readonly name: string
  readonly kind: string
  readonly start_time_unix_nano: string
  readonly end_time_unix_nano: string
  readonly status?: { readonly code?: string }
  readonly attributes?: readonly KeyValue[]
}

interface RequestMessage {
  readonly resource_spans?: readonly {
    readonly resource: { readonly attributes?: readonly KeyValue[] }
    readonly scope_spans: readonly { readonly spans: readonly SpanMessage[] }[]
  }[]
}

export function decodeSpans(body: Uint8Array): readonly ReceivedSpan[] {
  const message = requestType.toObject(requestType.decode(body), { longs: String, enums: String }) as RequestMessage
  return (message.resource_spans ?? []).flatMap(({ resource, scope_spans: scopes }) =>
    scopes.flatMap(({ spans }) => spans.map((span) => receivedSpan(span, resource.attributes ?? []))),
  )
}

/** The body of an answer that rejects some spans of a batch. */
export function partialSuccess(rejected: number): Uint8Array<ArrayBuffer> {
  const message = { partial_success: { rejected_spans: rejected, error_message: 'too old' } }
  return new Uint8Array(responseType.encode(responseType.fromObject(message)).finish())
}

function receivedSpan(span: SpanMessage, resource: readonly KeyValue[]): ReceivedSpan {
  return {
    traceId: Buffer.from(span.trace_id).toString('hex'),
    spanId: Buffer.from(span.span_id).toString('hex'),
    parentId: Buffer.from(span.parent_span_id ?? []).toString('hex'),
    state: span.trace_state ?? '',
    flags: span.flags ?? 0,
    name: span.name,
    kind: span.kind === 'SPAN_KIND_SERVER' ? 'server' : 'client',
    start: BigInt(span.start_time_unix_nano),
    end: BigInt(span.end_time_unix_nano),
    isError: span.status?.code === 'STATUS_CODE_ERROR',
    attributes: valuesOf(span.attributes ?? []),
    resource: valuesOf(resource),
  }
}

function valuesOf(pairs: readonly KeyValue[]): Readonly<Record<string, Value>> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, plainValue(value)]))
}

function plainValue(value: AnyValue): Value {
  if (value.array_value !== undefined) return (value.array_value.values ?? []).map(plainValue)
  if (value.int_value !== undefined) return Number(value.int_value)
  return value.string_value ?? value.bool_value ?? value.double_value ?? ''
}

export interface TestCollector extends Disposable {
  readonly url: string
  /** The spans of all batches that were accepted. */
  readonly spans: ReceivedSpan[]
  /** One for each request, whatever the answer. */
  readonly requests: { readonly path: string; readonly headers: Headers }[]
  /** The answer from now on; by default 200 without a body. */
  answer: (attempt: number) => Response | Promise<Response>
  /** Resolves to all spans once there are at least `count`. */
  received(count: number): Promise<readonly ReceivedSpan[]>
  /** Resolves after the `count`th request. */
  asked(count: number): Promise<void>
}

export function collector(): TestCollector {
  const waiting = new Set<() => void>()
  const until = async (holds: () => boolean) => {
    while (!holds()) await new Promise<void>((resolve) => waiting.add(resolve))
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const spans = decodeSpans(new Uint8Array(await request.arrayBuffer()))
      made.requests.push({ path: new URL(request.url).pathname, headers: request.headers })
      wake()
      const answer = await made.answer(made.requests.length)
      if (answer.ok) made.spans.push(...spans)
      wake()
      return answer
    },
  })
  const wake = () => {
    for (const resolve of waiting) resolve()
    waiting.clear()
  }
  const made: TestCollector = {
    url: `http://127.0.0.1:${server.port}`,
    spans: [],
    requests: [],
    answer: () => new Response(),
    async received(count) {
      await until(() => made.spans.length >= count)
      return made.spans
    },
    asked: (count) => until(() => made.requests.length >= count),
    [Symbol.dispose]: () => void server.stop(true),
  }
  return made
}
