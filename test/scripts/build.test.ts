/** What `scripts/build` makes has all parts of weir, those that are loaded on demand too. */

import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ask, requestBytes } from '../support/caller.ts'
import { executable } from '../support/executable.ts'
import { Gateway, KEY, providerEntry } from '../support/gateway.ts'
import { GOOGLE_TOKEN } from '../support/google-tokens.ts'
import { RedisServer } from '../support/redis.ts'
import * as does from '../support/scenarios.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'

const ROOT = join(import.meta.dir, '../..')

const chat = requestBytes('/v1/chat/completions', {
  key: KEY,
  body: { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
})

test('the executable knows its commit', async () => {
  const { stdout } = Bun.spawnSync([await executable(), 'version'])
  const version = String.raw`\d+\.\d+\.\d+(\+git\d{8}\.\d{6}\.[0-9a-f]{7,}(\.changed)?)?`
  expect(stdout.toString()).toMatch(new RegExp(String.raw`^weir ${version} \(commit \w+, Bun [\d.]+\)\n$`))
})

describe('the version of a build', () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-version-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  function sh(line: string): string {
    const script = `. ${join(ROOT, 'scripts/build-version')}; ${line}`
    const env = { PATH: process.env['PATH'], GIT_CONFIG_GLOBAL: '/dev/null', HOME: folder }
    const { stdout, stderr, exitCode } = Bun.spawnSync(['bash', '-euc', script], { cwd: folder, env })
    if (exitCode !== 0) throw new Error(`${line}: ${stderr}`)
    return stdout.toString().trim()
  }

  function commit(name: string, time: string): string {
    writeFileSync(join(folder, 'README.md'), name)
    const date = `GIT_COMMITTER_DATE=${time} GIT_AUTHOR_DATE=${time}`
    sh(`git add . && ${date} git -c user.name=a -c user.email=a@b commit --quiet -m '${name}'`)
    return sh('build_version')
  }

  test('is later for each commit and each change of the checkout, and that of the manifest for its tag', () => {
    writeFileSync(join(folder, 'package.json'), '{\n  "version": "1.2.3",\n  "x": 1\n}\n')
    expect(sh('build_version')).toBe('1.2.3')
    sh('git init --quiet')
    const versions = [
      '1.2.2',
      commit('first', '2026-11-22T23:59:59-0500'),
      commit('second', '2026-11-23T05:00:09+0000'),
      commit('third', '2026-11-23T05:00:10+0000'),
    ]
    expect(versions.slice(1)).toEqual([
      expect.stringMatching(/^1\.2\.3\+git20261123\.045959\.[0-9a-f]{7}$/),
      expect.stringMatching(/^1\.2\.3\+git20261123\.050009\.[0-9a-f]{7}$/),
      expect.stringMatching(/^1\.2\.3\+git20261123\.050010\.[0-9a-f]{7}$/),
    ])
    sh('git tag v1.2.3')
    expect(sh('build_version')).toBe('1.2.3')
    writeFileSync(join(folder, 'README.md'), 'changed')
    expect(sh('build_version')).toMatch(/^1\.2\.3\+git\d{8}\.\d{6}\.[0-9a-f]{7}\.changed$/)
    if (Bun.which('dpkg') === null) return
    for (const [index, version] of versions.slice(1).entries())
      sh(`dpkg --compare-versions '${versions[index]}' lt '${version}'`)
  })
})

test.each(['--target', '--target windows-x64', '--strip'])('scripts/build %s is wrong usage', (flags) => {
  const build = Bun.spawnSync([join(ROOT, 'scripts/build'), ...flags.split(' ')])
  expect([build.exitCode, build.stderr.toString()]).toEqual([
    2,
    'Usage: scripts/build [--target linux-x64|linux-arm64] [FILE]\n',
  ])
})

test('the executable serves with the embedded ledger, and has metrics and the reference', async () => {
  await using upstream = await Upstream.start({ m: does.answersText('Hello') })
  await using gateway = await Gateway.start({ providers: { up: upstream.url }, executable: await executable() })
  expect((await ask(gateway.port, chat)).status).toBe(200)
  expect(await (await fetch(`${gateway.adminUrl}/metrics`)).text()).toContain('weir_')
  expect(await (await fetch(`${gateway.adminUrl}/docs`)).text()).toContain('id="createChatCompletion"')
  expect(await (await fetch(`${gateway.adminUrl}/openapi.json`)).json()).toHaveProperty('openapi', '3.1.0')
})

test('the executable serves with Redis and Bedrock', async () => {
  await using upstream = await Upstream.start({ m: does.answersText('Hello') })
  await using redis = await RedisServer.start()
  const aws = { dialect: 'bedrock', region: 'eu-west-1', access_key_id: 'AKIA', secret_access_key: 'secret' }
  await using gateway = await Gateway.start({
    providers: { up: upstream.url, aws },
    config: { ledger: { redis: redis.url } },
    executable: await executable(),
  })
  expect((await ask(gateway.port, chat)).status).toBe(200)
  expect((await fetch(`${gateway.adminUrl}/readyz`)).status).toBe(200)
})

test('the executable fetches access tokens for Vertex AI', async () => {
  await using upstream = await Upstream.start()
  upstream.otherwise(speaks('vertex', () => textAnswer('Hello')))
  await using gateway = await Gateway.start({
    providers: { vertex: providerEntry('vertex', `http://127.0.0.1:${upstream.port}`) },
    executable: await executable(),
  })
  expect((await ask(gateway.port, chat)).status).toBe(200)
  expect(upstream.calls[0]?.header('authorization')).toBe(`Bearer ${GOOGLE_TOKEN}`)
})
