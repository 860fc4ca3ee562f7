/** weir neither loads nor runs files of its working directory, and neither do its workers. */

import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { executable } from '../support/executable.ts'
import { childrenOf } from '../support/process-table.ts'
import { configuration, lives, until } from './weir.ts'

const ROOT = join(import.meta.dir, '../..')

/** A folder whose files would run code in whatever loads them; each such process leaves a file `ran-…`. */
async function evilFolder(): Promise<string> {
  const folder = await fs.mkdtemp(join(tmpdir(), 'weir-evil-'))
  const write = (name: string, text: string) => fs.writeFile(join(folder, name), text)
  const evil = join(folder, 'evil.ts')
  await write(
    'evil.ts',
    `require('fs').writeFileSync(${JSON.stringify(folder)} + '/ran-' + process.pid, process.argv.join(' '))`,
  )
  for (const name of ['.env', '.env.local', '.env.development', '.env.production'])
    await write(name, `FROM_DOTENV=0123456789abcdef0123456789\nBUN_OPTIONS=--preload=${evil}\n`)
  const bunfig = `preload = ["./evil.ts"]\n[run]\npreload = ["./evil.ts"]\n[define]\n"process.env.HOME" = "'evil'"\n`
  await write('bunfig.toml', bunfig)
  await write('.bunfig.toml', bunfig.replaceAll('./evil.ts', evil))
  await write('tsconfig.json', JSON.stringify({ compilerOptions: { baseUrl: '.', paths: { '*': ['./evil.ts'] } } }))
  await write('package.json', '{ "name": "evil", "type": "module" }')
  return folder
}

function ran(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter((name) => name.startsWith('ran-'))
    .map((name) => readFileSync(join(folder, name), 'utf8'))
}

/** HOME has the same files. */
function environment(folder: string): Record<string, string> {
  return { PATH: `${dirname(process.execPath)}:${process.env['PATH']}`, HOME: folder, XDG_CONFIG_HOME: folder }
}

test('Bun does run the code of this folder if nothing prevents it', async () => {
  const folder = await evilFolder()
  await fs.writeFile(join(folder, 'plain.ts'), 'export {}')
  const options = { cwd: folder, env: environment(folder), stdio: ['ignore', 'ignore', 'ignore'] as const }
  await Bun.spawn([process.execPath, 'plain.ts'], { ...options, stdio: ['ignore', 'ignore', 'ignore'] }).exited
  expect(ran(folder)).toHaveLength(1)
  await fs.rm(folder, { recursive: true })
})

test('the environment still runs code in Bun, as docs/security.md states: no flag switches that off', async () => {
  const documented = readFileSync(join(ROOT, 'docs/security.md'), 'utf8')
  const folder = await evilFolder()
  const evil = join(folder, 'evil.ts')
  for (const [name, value] of [
    ['BUN_OPTIONS', `--preload ${evil}`],
    ['BUN_INSPECT_PRELOAD', evil],
  ] as const) {
    const env = { ...environment(folder), [name]: value }
    const before = ran(folder).length
    await Bun.spawn([join(ROOT, 'src/main.ts'), 'version'], { env, stdio: ['ignore', 'ignore', 'ignore'] }).exited
    expect(ran(folder).length).toBeGreaterThan(before)
    expect(documented).toContain(`\`${name}\``)
  }
  await fs.rm(folder, { recursive: true })
})

for (const program of ['scripts/weir', 'src/main.ts', 'the executable']) {
  const path = async () => (program === 'the executable' ? await executable() : resolve(ROOT, program))

  test(`${program} loads nothing from its working directory`, async () => {
    const folder = await evilFolder()
    const config = join(folder, 'weir.yaml')
    const text = configuration({ baseUrl: 'http://127.0.0.1:9/v1', ledger: 'embedded', drainSeconds: 1 })
    const options = { cwd: folder, env: environment(folder) }
    const check = async () => {
      const child = Bun.spawn([await path(), 'check'], { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
      const [out, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
      return { code: await child.exited, text: out + errors }
    }
    await fs.writeFile(config, text)
    expect(await check()).toMatchObject({ code: 0 })
    await fs.writeFile(config, `${text}\ncompaction: { keys: ["\${FROM_DOTENV}"] }\n`)
    expect(await check()).toMatchObject({ code: 1, text: expect.stringContaining('is not set in the environment') })
    expect(ran(folder)).toEqual([])
    await fs.rm(folder, { recursive: true })
  })

  test(`${program} serve: neither do its workers`, async () => {
    const folder = await evilFolder()
    await fs.writeFile(
      join(folder, 'weir.yaml'),
      configuration({ baseUrl: 'http://127.0.0.1:9/v1', ledger: 'embedded', drainSeconds: 1 }),
    )
    const child = Bun.spawn([await path(), 'serve'], {
      cwd: folder,
      env: environment(folder),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let log = ''
    const reading = (async () => {
      for await (const chunk of child.stdout) log += new TextDecoder().decode(chunk)
    })()
    await until(() => log.includes('"msg":"ready"') || child.exitCode !== null)
    const workers = childrenOf(child.pid)
    expect(workers).toHaveLength(1)
    for (const worker of workers) expect(readFileSync(`/proc/${worker}/environ`, 'utf8')).not.toContain('FROM_DOTENV')
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
    await reading
    expect(await Promise.all(workers.map(lives))).toEqual([false])
    expect(ran(folder)).toEqual([])
    await fs.rm(folder, { recursive: true })
  })
}

test('scripts/weir installs missing dependencies without the .env of the checkout', async () => {
  const folder = await fs.mkdtemp(join(tmpdir(), 'weir-checkout-'))
  for (const name of ['weir', 'find-bun'])
    await fs.cp(join(ROOT, 'scripts', name), join(folder, 'scripts', name), { recursive: true })
  await fs.mkdir(join(folder, 'src'))
  await fs.writeFile(join(folder, 'src/main.ts'), `console.log('started')\n`)
  await fs.writeFile(join(folder, 'package.json'), `{\n  "devDependencies": {},\n  "bun": "${Bun.version}"\n}\n`)
  // Bun names the file that it has read.
  await fs.writeFile(join(folder, '.env'), 'BUN_CONFIG_REGISTRY=http://127.0.0.1:9/\n')
  const child = Bun.spawn([join(folder, 'scripts/weir'), 'version'], {
    cwd: folder,
    env: environment(folder),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [out, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  expect({ code: await child.exited, out }).toEqual({ code: 0, out: 'started\n' })
  expect(errors).not.toContain('.env')
  await fs.rm(folder, { recursive: true })
})
