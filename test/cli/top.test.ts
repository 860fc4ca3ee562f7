/** `weir top` in a pipe and on a pseudo-terminal. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { provider } from '../process/provider.ts'
import { configuration, PROGRAM, Weir } from '../process/weir.ts'

let upstream: ReturnType<typeof provider>
let weir: Weir

beforeAll(async () => {
  upstream = provider()
  upstream.finish()
  weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl }))
  await (await weir.stream()).rest()
})

afterAll(async () => {
  await weir[Symbol.asyncDispose]()
  upstream[Symbol.dispose]()
})

/** `weir top` on a terminal of its own. */
class Terminal {
  shown = ''
  private wake: () => void = () => {}
  readonly process: Bun.Subprocess

  constructor(words: readonly string[], columns: number, rows: number, env: Readonly<Record<string, string>> = {}) {
    this.process = Bun.spawn([...PROGRAM, 'top', ...words], {
      cwd: weir.folder,
      env: { ...process.env, TERM: 'xterm', LANG: 'C.UTF-8', ...env },
      terminal: {
        cols: columns,
        rows,
        data: (_terminal, bytes) => {
          this.shown += Buffer.from(bytes).toString('utf8')
          this.wake()
        },
      },
    })
  }

  /** Resolves when everything that was shown matches. */
  async until(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.shown)) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.wake = resolve
      await Promise.race([promise, this.process.exited])
      if (this.process.exitCode !== null && !pattern.test(this.shown)) throw new Error(`ended: ${this.shown}`)
    }
  }

  press(keys: string): void {
    this.process.terminal?.write(keys)
  }

  resize(columns: number, rows: number): void {
    this.shown = ''
    this.process.terminal?.resize(columns, rows)
  }

  /** The lines of the last whole frame, without codes. */
  get frame(): readonly string[] {
    const frames = this.shown.split('\u001b[?2026h\u001b[H').filter((text) => text.includes('\u001b[?2026l'))
    const [frame = ''] = (frames.at(-1) ?? '').split('\u001b[J')
    return frame.split(/\r+\n/).map((line) => line.replace(/\u001b\[\d*[a-zA-Z]/g, ''))
  }
}

async function once(words: readonly string[], config = weir.folder) {
  const child = Bun.spawn([...PROGRAM, 'top', ...words], { cwd: config, stdout: 'pipe', stderr: 'pipe' })
  const [code, out, problems] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  return { code, out, problems }
}

test('a pipe gets one frame of plain text', async () => {
  const { code, out, problems } = await once([])
  expect([code, problems]).toEqual([0, ''])
  expect(out).not.toContain('\u001b')
  expect(out).toMatch(/^weir \d.*ready, up .*1 of 1 workers/)
  expect(out).toMatch(/\nTargets\nstate +target .*\nhealthy +fake\/upstream /)
  expect(out).toMatch(/\nRequests\nstatus .*\n +200 |\nRequests\nstatus .*\n200 /)
})

test('without a gateway it ends with 1 and one line', async () => {
  await Bun.write(join(weir.folder, 'other.yaml'), 'data_dir: ./nowhere\n')
  const { code, out, problems } = await once(['--config', 'other.yaml'])
  expect([code, out]).toEqual([1, ''])
  expect(problems).toBe(`weir: no gateway runs with data_dir ${join(weir.folder, 'nowhere')} (from other.yaml)\n`)
})

test('q, Ctrl-C and SIGTERM restore the terminal', async () => {
  for (const end of ['q', '\u0003', 'SIGTERM'] as const) {
    const terminal = new Terminal([], 100, 30)
    await terminal.until(/healthy.*\u001b\[\?2026l/s)
    expect(terminal.shown).toStartWith('\u001b[?1049h\u001b[?25l')
    if (end === 'SIGTERM') terminal.process.kill(end)
    else terminal.press(end)
    expect(await terminal.process.exited).toBe(0)
    expect(terminal.shown.trimEnd()).toEndWith('\u001b[?25h\u001b[?1049l')
  }
})

test('it is redrawn in place, and fits the terminal after a resize', async () => {
  const terminal = new Terminal([], 120, 40)
  await terminal.until(/\u001b\[\?2026l.*\u001b\[\?2026l/s)
  expect(terminal.shown.slice(20)).not.toContain('\u001b[2J')
  expect(terminal.frame.join('\n')).toContain('outcome')
  terminal.resize(44, 12)
  await terminal.until(/\u001b\[\?2026l/)
  expect(terminal.frame.length).toBeLessThanOrEqual(12)
  expect(Math.max(...terminal.frame.map((line) => line.length))).toBeLessThanOrEqual(44)
  expect(terminal.frame.join('\n')).not.toContain('outcome')
  terminal.press('q')
  expect(await terminal.process.exited).toBe(0)
})

test('NO_COLOR has no colours', async () => {
  const terminal = new Terminal([], 100, 30, { NO_COLOR: '1' })
  await terminal.until(/healthy.*\u001b\[\?2026l/s)
  expect(terminal.shown).not.toMatch(/\u001b\[\d*m/)
  terminal.press('q')
  await terminal.process.exited
})
