/** `weir reload` and `weir health` against a running gateway, as processes. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { configuration, KEY, PROGRAM, Weir } from '../process/weir.ts'

const BASE = configuration({ baseUrl: 'http://127.0.0.1:9/v1', models: ['small', 'large'] })
let weir: Weir

beforeAll(async () => {
  weir = await Weir.ready(BASE)
})

afterAll(async () => {
  weir.signal('SIGTERM')
  await weir.ended
})

function command(...args: readonly string[]) {
  return commandOf(weir, ...args)
}

async function commandOf({ folder }: Weir, ...args: readonly string[]) {
  const child = Bun.spawn([...PROGRAM, ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { code, stdout, stderr }
}

test('health prints that weir is ready', async () => {
  expect(await command('health')).toEqual({ code: 0, stdout: 'ready\n', stderr: '' })
})

test('reload without a change prints that nothing changed', async () => {
  expect(await command('reload')).toEqual({ code: 0, stdout: 'nothing changed\n', stderr: '' })
  expect((await weir.line('configuration reloaded'))['changes']).toEqual([])
})

test('reload prints what changed, logs it, and applies it', async () => {
  const changed = BASE.replace('{ name: large, targets', '{ name: huge, targets')
    .replace('{ name: small,', '{ name: small, price: { input: 1, output: 2 },')
    .replace('keys: [{ id: ci,', 'keys: [{ id: new, key: another-key-0123456789 }, { id: ci,')
  await weir.configure(changed)
  const lines = ['+ model huge', '~ price of small', '- model large', '+ key new']
  expect(await command('reload')).toEqual({ code: 0, stdout: `${lines.join('\n')}\n`, stderr: '' })
  expect(await weir.line('configuration reloaded', 2)).toMatchObject({
    event: 'config.reloaded',
    changes: lines,
  })
  expect(await weir.models()).toEqual(['small', 'huge'])
})

test('reload prints every problem; the configuration before stays in force', async () => {
  const before = await weir.models()
  await weir.configure(`${BASE.replaceAll('provider: fake', 'provider: fak')}ownedby: x\n`)
  const { code, stdout, stderr } = await command('reload')
  expect([code, stdout]).toEqual([1, ''])
  const lines = stderr.trimEnd().split('\n')
  expect(lines).toHaveLength(4)
  expect(lines.join('\n')).toContain('models[0].targets[0].provider: no provider is named "fak"')
  expect(lines.join('\n')).toContain('models[1].targets[0].provider: no provider is named "fak"')
  expect(lines.join('\n')).toContain('ownedby: unknown key (did you mean "owned_by"?)')
  expect(lines[3]).toBe('weir: the configuration was rejected; the one before stays in force')
  expect(await weir.models()).toEqual(before)
  expect(await command('health')).toEqual({ code: 0, stdout: 'ready\n', stderr: '' })
})

test('a setting that needs a restart is a problem that names it', async () => {
  await weir.configure(BASE.replace('drain_seconds: 60', 'workers: 2'))
  const { code, stderr } = await command('reload')
  expect(code).toBe(1)
  expect(stderr).toContain('workers: ')
})

test('reloads that are requested at the same time share one that reads the latest file', async () => {
  await weir.configure(BASE)
  const answers = await Promise.all(Array.from({ length: 6 }, () => command('reload')))
  expect(answers.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 0])
  expect(answers.some(({ stdout }) => stdout.includes('+ model large'))).toBe(true)
  expect(await weir.models()).toEqual(['small', 'large'])
})

test('references that only the gateway can replace do not hinder the command', async () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the configuration
  await weir.configure(BASE.replace('owned_by', 'x').replace('api_key: provider-key', 'api_key: "${PATH}-$"'))
  const child = Bun.spawn([...PROGRAM, 'reload'], {
    cwd: weir.folder,
    env: {},
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  await child.exited
  expect(await child.stderr.text()).not.toContain('not set in the environment')
  await weir.configure(BASE)
})

test('reload reports that weir is draining', async () => {
  const asked = Promise.withResolvers<void>()
  const answer = Promise.withResolvers<Response>()
  const provider = Bun.serve({
    port: 0,
    fetch: () => {
      asked.resolve()
      return answer.promise
    },
  })
  const draining = await Weir.ready(configuration({ baseUrl: `${provider.url}v1`, models: ['small'] }))
  const caller = fetch(`${draining.address}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'Hi' }] }),
  })
  await asked.promise
  draining.signal('SIGTERM')
  await draining.line('draining')
  const stderr = 'weir: the gateway is draining and has not read the configuration\n'
  expect(await commandOf(draining, 'reload')).toEqual({ code: 1, stdout: '', stderr })
  answer.resolve(new Response('{}', { status: 400 }))
  expect((await caller).status).toBe(400)
  await draining.ended
  await provider.stop(true)
})

test.each(['reload', 'health'])('%s without a gateway: exit code 1, with the directory', async (name) => {
  await writeFile(join(weir.folder, 'other.yaml'), 'data_dir: ./nowhere\n')
  const { code, stdout, stderr } = await command(name, '--config', 'other.yaml')
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toBe(`weir: no gateway runs with data_dir ${join(weir.folder, 'nowhere')} (from other.yaml)\n`)
})
