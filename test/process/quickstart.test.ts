import { expect, test } from 'bun:test'
import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { requestLine } from '../../scripts/request-line.ts'
import { lastingPort } from '../support/ports.ts'

const ROOT = join(import.meta.dir, '../..')
/** Downloads Bun and the dependencies. */
const SLOW_MS = 240_000

/** What a clone would hold of the tree as it is now: no dependencies, no data, no Bun. */
async function clone(): Promise<string> {
  const listed = Bun.spawnSync(['git', 'ls-files', '-co', '--exclude-standard', '-z'], { cwd: ROOT })
  const folder = await fs.mkdtemp(join(tmpdir(), 'weir-clone-'))
  for (const path of listed.stdout.toString().split('\0').filter(Boolean)) {
    await fs.mkdir(join(folder, dirname(path)), { recursive: true })
    // A file that was deleted and is still listed is not in the tree as it is now.
    await fs.cp(join(ROOT, path), join(folder, path)).catch(() => {})
  }
  return folder
}

/** PATH with everything but Bun: node, npm and the system's programs. */
function pathWithoutBun(): string {
  const folders = (process.env['PATH'] ?? '').split(':')
  return folders.filter((folder) => Bun.which('bun', { PATH: folder }) === null).join(':')
}

async function run(command: string[], cwd: string, env: Readonly<Record<string, string | undefined>>) {
  const started = Bun.spawn(command, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr, code] = await Promise.all([
    new Response(started.stdout).text(),
    new Response(started.stderr).text(),
    started.exited,
  ])
  return { code, stdout, stderr }
}

test(
  'scripts/quickstart --once works from a fresh clone, from any folder, with npm and without Bun',
  async () => {
    const folder = await clone()
    try {
      const env = { ...process.env, PATH: pathWithoutBun(), OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '' }
      const { code, stdout, stderr } = await run([join(folder, 'scripts/quickstart'), '--once'], tmpdir(), env)
      expect({ code, stderr }).toEqual({
        code: 0,
        stderr: expect.stringMatching(/^Installing Bun [^\n]+\nInstalling the /),
      })
      // What the program runs on, and nothing of what only its tests need.
      const installed = await fs.readdir(join(folder, 'node_modules'))
      expect(installed).toContain('elysia')
      for (const name of ['openai', 'ai', '@copilotkit', '@biomejs', 'oxc-parser'])
        expect(installed).not.toContain(name)
      expect(stdout).toContain('"object":"chat.completion"')
      expect(stdout).toContain('data: [DONE]')
      expect(stdout).toContain('All requests were answered.')
    } finally {
      await fs.rm(folder, { recursive: true, force: true })
    }
  },
  SLOW_MS,
)

/** A quickstart that runs until SIGTERM. */
class Quickstart implements AsyncDisposable {
  shown = ''
  private readonly reading: Promise<void>

  private constructor(readonly process: Bun.Subprocess<'ignore', 'pipe', 'inherit'>) {
    this.reading = this.read()
  }

  static start(command: readonly string[]): Quickstart {
    const env = { ...process.env, OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '' }
    return new Quickstart(Bun.spawn([...command], { env, stdio: ['ignore', 'pipe', 'inherit'] }))
  }

  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.shown)
      if (found !== null) return found
      if (this.process.exitCode !== null) throw new Error(`It ended: ${this.shown}`)
      await Bun.sleep(10)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill('SIGTERM')
    await this.process.exited
    await this.reading
  }

  private async read(): Promise<void> {
    const decoder = new TextDecoder()
    for await (const chunk of this.process.stdout) this.shown += decoder.decode(chunk, { stream: true })
  }
}

const SCRIPT = join(ROOT, 'scripts/quickstart.ts')

test('the first request of the README works as it stands, after the line that sets WEIR_KEY', async () => {
  const readme = await fs.readFile(join(ROOT, 'README.md'), 'utf8')
  const [, request = ''] = /## A first request[\s\S]*?```sh runnable\n([\s\S]*?)```/.exec(readme) ?? []
  expect(request).toContain('"gpt-5-mini"')
  const port = String(await lastingPort())
  await using quickstart = Quickstart.start([process.execPath, SCRIPT, '--port', port])
  const [line] = await quickstart.until(/^export WEIR_KEY=\S+$/m)
  await quickstart.until(/Ctrl-C/)
  expect(quickstart.shown).toContain(`http://127.0.0.1:${port}`)
  expect(quickstart.shown).toContain(`They use port 8080: replace http://127.0.0.1:8080 by http://127.0.0.1:${port}.`)
  for (const model of ['gpt-5-mini', 'claude-sonnet']) {
    const script = `${line}\n${request.replace('8080', port).replace('gpt-5-mini', model)}`
    const answer = JSON.parse((await run(['sh', '-c', script], tmpdir(), process.env)).stdout)
    expect(answer).toMatchObject({ object: 'chat.completion', model })
  }
})

test('--port N: a port in use is an error, not another port', async () => {
  const taken = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => {} } })
  const env = { ...process.env, OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '' }
  const { code, stderr } = await run([process.execPath, SCRIPT, '--port', String(taken.port)], tmpdir(), env)
  taken.stop(true)
  expect(code).toBe(1)
  expect(stderr).toContain(`cannot listen on 127.0.0.1:${taken.port}`)
  for (const wrong of ['70000', 'x', ''])
    expect((await run([process.execPath, SCRIPT, '--port', wrong], ROOT, env)).code).toBe(2)
})

test.skipIf(Bun.which('script') === null)('on a terminal each request is one short line', async () => {
  const port = String(await lastingPort())
  const command = `${process.execPath} ${SCRIPT} --port ${port}`
  await using quickstart = Quickstart.start(['script', '-qefc', command, '/dev/null'])
  const [, key = ''] = await quickstart.until(/^export WEIR_KEY=(\S+?)\r?$/m)
  await quickstart.until(/Ctrl-C/)
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'gpt-5-mini', messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  await answer.text()
  const [line] = await quickstart.until(/^\d\d:\d\d:\d\d {2}200 .*$/m)
  expect(line).toMatch(/^[\d:]{8} {2}200 {2}chat {7}gpt-5-mini {2}from simulated {2}\d+ ms {2}1 \+ 17 tokens/)
  expect(line).toMatch(/ ms {2}1 \+ 17 tokens {2}\$0\.0000\d\d {2}completed/)
  expect(quickstart.shown).not.toContain('{"level"')
})

test('the line of a refused request names its error, any other line is its message', () => {
  const time = new Date(2026, 0, 1, 9, 8, 7).toISOString()
  const refused = { time, msg: 'request', status: 404, dialect: 'responses', requested_model: 'x', total_ms: 1.4 }
  expect(requestLine({ ...refused, error: 'model_not_found', outcome: 'refused' })).toBe(
    '09:08:07  404  responses  x  1 ms  model_not_found',
  )
  expect(requestLine({ time, msg: 'draining', level: 30 })).toBe('09:08:07 draining')
})

test('scripts/quickstart prints how to reach it, shows the log, and stops all that it started', async () => {
  const started = Bun.spawn([process.execPath, join(ROOT, 'scripts/quickstart.ts')], {
    env: { ...process.env, OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let shown = ''
  let asked = false
  const decoder = new TextDecoder()
  for await (const chunk of started.stdout) {
    shown += decoder.decode(chunk, { stream: true })
    const line = /^curl -sN (\S+) -H 'authorization: Bearer (\S+)'.*-d '(.*)'$/m.exec(shown)
    if (line !== null && shown.includes('Ctrl-C') && !asked) {
      asked = true
      const [, url = '', key, body = ''] = line
      const answer = await fetch(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body,
      })
      expect(answer.status).toBe(200)
      await answer.text()
    }
    if (shown.includes('"msg":"request"')) started.kill('SIGINT')
  }
  expect(await started.exited).toBe(0)
  const address = /^address +(\S+)$/m.exec(shown)?.[1] ?? ''
  await expect(fetch(address)).rejects.toThrow()
})
