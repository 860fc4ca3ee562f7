/**
 * Spans at an OpenTelemetry Collector, if `WEIR_OTEL_COLLECTOR` names one: any distribution with the receiver `otlp`
 * and the exporter `debug`, which prints what it understood.
 */

import { expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { STREAM, Stage } from '../gateway/stage.ts'
import { lastingPort } from '../support/ports.ts'
import * as does from '../support/scenarios.ts'

const { WEIR_OTEL_COLLECTOR: COLLECTOR } = process.env

test.skipIf(COLLECTOR === undefined)('an OpenTelemetry Collector understands the spans', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-collector-'))
  const address = `127.0.0.1:${await lastingPort()}`
  const pipelines = { traces: { receivers: ['otlp'], exporters: ['debug'] } }
  const config = {
    receivers: { otlp: { protocols: { http: { endpoint: address } } } },
    exporters: { debug: { verbosity: 'detailed' } },
    service: { telemetry: { metrics: { level: 'none' } }, pipelines },
  }
  await writeFile(join(folder, 'config.yaml'), JSON.stringify(config))
  const words = [COLLECTOR ?? '', '--config', `file:${join(folder, 'config.yaml')}`]
  await using collecting = Bun.spawn(words, { stdio: ['ignore', 'ignore', 'pipe'] })
  const seen = new Printed(collecting.stderr)
  await seen.until('Everything is ready')
  await using stage = await Stage.start(
    {
      answered: [does.json(503, '{}'), does.answersText('Hello')],
      cut: does.resets(does.chatFrames(['a']).slice(0, 2)),
    },
    { config: { tracing: { endpoint: `http://${address}`, sample: 1 } } },
  )
  await stage.ask('answered', STREAM)
  await stage.ask('cut', STREAM)
  process.kill(stage.gateway.pid, 'SIGTERM')
  await stage.gateway.exit
  for (const line of [
    /Name +: chat answered\n +Kind +: Server\n[^#]*Status code +: Unset\n/,
    /Name +: chat answered\n +Kind +: Client\n[^#]*Status code +: Error\n[^#]*-> error.type: Str\(overloaded\)\n/,
    /Name +: chat cut\n +Kind +: Server\n[^#]*Status code +: Error\n[^#]*-> weir.outcome: Str\(provider_cut\)\n/,
    /-> gen_ai.usage.output_tokens: Int\(\d+\)\n/,
    /-> gen_ai.response.time_to_first_chunk: Double\([\d.]+\)\n/,
    /-> gen_ai.response.finish_reasons: Slice\(\["stop"\]\)\n/,
    /-> service.name: Str\(weir\)\n/,
  ])
    await seen.until(line)
  expect(seen.text).not.toContain('Hello')
  await rm(folder, { recursive: true })
})

/** What a process has printed. */
class Printed {
  text = ''
  private readonly chunks: AsyncIterator<Uint8Array>
  private readonly decoder = new TextDecoder()

  constructor(stream: ReadableStream<Uint8Array>) {
    this.chunks = stream[Symbol.asyncIterator]()
  }

  /** Throws with the text if the process ends without it. */
  async until(expected: string | RegExp): Promise<void> {
    while (typeof expected === 'string' ? !this.text.includes(expected) : !expected.test(this.text)) {
      const { done, value } = await this.chunks.next()
      if (done === true) throw new Error(`the collector ended without ${String(expected)}:\n${this.text}`)
      this.text += this.decoder.decode(value, { stream: true })
    }
  }
}
