/**
 * A relay in front of a gateway: it passes bytes on as they are, ends and resets too, and remembers them. At the end it
 * validates every exchange with `docs/openapi.json`, whichever caller made it.
 */

import net from 'node:net'
import { problemOfExchange, type RecordedAnswer, type RecordedRequest } from './api-exchange.ts'
import { chunkedOf, field, type Head, headOf, joined, textOf } from './bytes.ts'

/** Everything that one connection carried. */
interface Recording {
  readonly sent: Uint8Array[]
  readonly received: Uint8Array[]
}

const PROBLEMS_SHOWN_MAX = 5

export class ExchangeRecorder {
  private readonly recordings: Recording[] = []
  private readonly sockets = new Set<net.Socket>()

  private constructor(
    private readonly server: net.Server,
    readonly port: number,
  ) {}

  static async before(port: number): Promise<ExchangeRecorder> {
    const server = net.createServer({ allowHalfOpen: true, noDelay: true })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('The relay does not listen on a port.')
    const recorder = new ExchangeRecorder(server, address.port)
    server.on('connection', (caller) => recorder.accept(caller, port))
    return recorder
  }

  /** Ends all connections. Throws if an exchange did not match the document. */
  finish(): void {
    for (const socket of this.sockets) socket.destroy()
    this.server.close()
    const exchanges = this.recordings.flatMap(exchangesOf)
    const problems = exchanges.flatMap(({ request, answer }) => {
      const problem = problemOfExchange(request, answer)
      return problem === undefined ? [] : [`${request.method} ${request.path}, ${answer.status}: ${problem}`]
    })
    if (problems.length === 0) return
    const shown = [...new Set(problems)].slice(0, PROBLEMS_SHOWN_MAX)
    throw new Error(`${problems.length} exchanges do not match docs/openapi.json:\n${shown.join('\n')}`)
  }

  private accept(caller: net.Socket, port: number): void {
    const gateway = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
    const recording: Recording = { sent: [], received: [] }
    this.recordings.push(recording)
    this.forward(caller, gateway, recording.sent)
    this.forward(gateway, caller, recording.received)
  }

  private forward(from: net.Socket, to: net.Socket, record: Uint8Array[]): void {
    this.sockets.add(from)
    from.on('data', (data: Buffer) => {
      record.push(Uint8Array.from(data))
      if (!to.write(data)) from.pause()
    })
    to.on('drain', () => from.resume())
    from.on('end', () => to.end())
    // What was written before a reset must arrive before it.
    from.on('error', () => to.write('', () => to.resetAndDestroy()))
    from.on('close', () => {
      this.sockets.delete(from)
      to.end()
    })
  }
}

interface Exchange {
  readonly request: RecordedRequest
  readonly answer: RecordedAnswer
}

/** The exchanges of a connection in order. A request without an answer is none. */
function exchangesOf({ sent, received }: Recording): readonly Exchange[] {
  const exchanges: Exchange[] = []
  let requests = joined(sent)
  let answers = joined(received)
  for (;;) {
    const request = requestAt(requests)
    const answer = request && answerAt(answers, request.value.method)
    if (request === undefined || answer === undefined) return exchanges
    exchanges.push({ request: request.value, answer: answer.value })
    requests = requests.subarray(request.length)
    answers = answers.subarray(answer.length)
  }
}

/** A message and its length in bytes. */
interface Found<T> {
  readonly value: T
  readonly length: number
}

function requestAt(bytes: Uint8Array): Found<RecordedRequest> | undefined {
  const head = headOf(bytes)
  if (head === undefined) return undefined
  const [method = '', target = ''] = head.line.split(' ')
  const { body, length } = bodyAt(head, bytes.subarray(head.length))
  const headers = headersOf(head)
  const path = target.split('?')[0] ?? ''
  return { value: { method, path, headers, body: textOf(body) }, length: head.length + length }
}

function answerAt(bytes: Uint8Array, method: string): Found<RecordedAnswer> | undefined {
  const head = headOf(bytes)
  if (head === undefined) return undefined
  const status = Number(head.line.split(' ')[1])
  if (status === 100) {
    const next = answerAt(bytes.subarray(head.length), method)
    return next && { value: next.value, length: head.length + next.length }
  }
  const rest = bytes.subarray(head.length)
  const { body, length, isWhole } = method === 'HEAD' ? NO_BODY : bodyAt(head, rest)
  return { value: { status, headers: headersOf(head), body: textOf(body), isWhole }, length: head.length + length }
}

interface Body {
  readonly body: Uint8Array
  /** In bytes, with the framing. */
  readonly length: number
  readonly isWhole: boolean
}

const NO_BODY: Body = { body: new Uint8Array(), length: 0, isWhole: true }

function bodyAt(head: Head, rest: Uint8Array): Body {
  if (field(head, 'transfer-encoding') === 'chunked') {
    const { chunks, ended, length } = chunkedOf(rest)
    return { body: joined(chunks), length, isWhole: ended }
  }
  const length = Number(field(head, 'content-length') ?? 0)
  const body = rest.subarray(0, length)
  return { body, length: body.length, isWhole: body.length === length }
}

function headersOf(head: Head): ReadonlyMap<string, string> {
  return new Map(head.fields.map(([name, value]) => [name.toLowerCase(), value]))
}
