/**
 * The splice beside plain decoding: every recorded stream of every provider, in several chunkings, to events. It must
 * never cost over a tenth more, whatever the stream.
 */

import { DecodeStream } from '../../src/gateway/decode-stream.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { responsesReader } from '../../src/providers/openai/responses-request.ts'
import type { Provider } from '../../src/providers/provider.ts'
import type { Measurement } from './rounds.ts'

const PROVIDERS: Readonly<Record<string, Provider>> = {
  ...{ openai, anthropic, gemini, bedrock },
  'openai-responses': { ...openai, ...responsesReader },
}
const FOLDER = `${import.meta.dir}/../../test/fixtures/providers`
/** Bytes of one chunk: a frame in pieces, about a frame, and the whole stream. */
const CHUNK_BYTES = [64, 400, 1024 * 1024] as const
/** The fastest of many short rounds is one that nothing else on the machine interrupted. */
const ROUNDS = 60
const WARM_ROUNDS = 12
const ROUND_MS = 0.25

const SINK = { event() {}, texts() {} }

/** Reads a whole stream; a stream that is meant to break ends in its error. */
function read(provider: Provider, chunks: readonly Uint8Array[], mode: 'spliced' | 'decoded'): void {
  const decoder = new DecodeStream(provider, SINK, mode)
  try {
    for (const chunk of chunks) if (!decoder.ended) decoder.push(chunk)
    if (!decoder.ended) decoder.close()
  } catch {
    // The recorded errors of providers, which both ways end with.
  }
}

function ratioOf(provider: Provider, chunks: readonly Uint8Array[], rounds = ROUNDS): number {
  const elapsedMs = (mode: 'spliced' | 'decoded', count: number): number => {
    const startMs = performance.now()
    for (let at = 0; at < count; at++) read(provider, chunks, mode)
    return performance.now() - startMs
  }
  let count = 1
  while (elapsedMs('decoded', count) < ROUND_MS) count *= 2
  const fastest = { spliced: Number.POSITIVE_INFINITY, decoded: Number.POSITIVE_INFINITY }
  for (let round = 0; round < rounds; round++) {
    for (const mode of ['spliced', 'decoded'] as const) {
      fastest[mode] = Math.min(fastest[mode], elapsedMs(mode, count))
    }
  }
  return fastest.spliced / fastest.decoded
}

function cut(bytes: Uint8Array, size: number): Uint8Array[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size))
}

/** The streams that cost most beside their decoding, in each chunking. */
export async function spliceMeasurements(): Promise<readonly Measurement[]> {
  const streams: { name: string; provider: Provider; bytes: Uint8Array }[] = []
  for (const [folder, provider] of Object.entries(PROVIDERS)) {
    for (const file of new Bun.Glob('*.{sse,bin}').scanSync({ cwd: `${FOLDER}/${folder}` })) {
      const bytes = new Uint8Array(await Bun.file(`${FOLDER}/${folder}/${file}`).arrayBuffer())
      streams.push({ name: `${folder}/${file}`, provider, bytes })
    }
  }
  for (const { provider, bytes } of streams)
    for (const size of CHUNK_BYTES) ratioOf(provider, cut(bytes, size), WARM_ROUNDS)
  return CHUNK_BYTES.flatMap((size) => {
    const ratios = streams.map(({ name, provider, bytes }) => ({ name, value: ratioOf(provider, cut(bytes, size)) }))
    ratios.sort((one, other) => other.value - one.value)
    const chunks = size > 1024 ? 'in one chunk' : `in chunks of ${size} bytes`
    return ratios.slice(0, 3).map(({ name, value }) => ({
      name: `splice beside decoding, ${chunks}: ${name}`,
      unit: '×',
      valueMax: 1.1,
      figures: [{ gateway: 'weir', value }],
    }))
  })
}
