import { expect, test } from 'bun:test'
import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

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
      const env = { ...process.env, PATH: pathWithoutBun(), OPENAI_API_KEY: '' }
      const { code, stdout, stderr } = await run([join(folder, 'scripts/quickstart'), '--once'], tmpdir(), env)
      expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^Installing Bun [^\n]+\n$/) })
      expect(stdout).toContain('"object":"chat.completion"')
      expect(stdout).toContain('data: [DONE]')
      expect(stdout).toContain('All requests were answered.')
    } finally {
      await fs.rm(folder, { recursive: true, force: true })
    }
  },
  SLOW_MS,
)

test('scripts/quickstart says how to reach it, shows the log, and stops all that it started', async () => {
  const started = Bun.spawn([process.execPath, join(ROOT, 'scripts/quickstart.ts')], {
    env: { ...process.env, OPENAI_API_KEY: '' },
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
