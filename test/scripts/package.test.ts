/**
 * What `scripts/package` makes is installed, started, upgraded under load and removed, on a copy of this machine.
 * systemd does not run there: the test does what the unit describes.
 */

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the configuration file are written so

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { COST_MICRO_USD, PRICE, pacedProvider, SteadyLoad } from '../process/steady-load.ts'
import { KEY, lives, until, Weir } from '../process/weir.ts'
import { Machine } from '../support/machine.ts'

const ROOT = join(import.meta.dir, '../..')
const folder = mkdtempSync(join(tmpdir(), 'weir-package-'))
/** Read from the name of the file that was built. */
let version = ''
let name = ''
const isDebian = Bun.which('dpkg-deb') !== null && process.arch === 'x64'

// Packing 120 MB takes long beside other tests.
setDefaultTimeout(600_000)

/** Plays systemd for the scripts of the package: sends signals to the program, and records how it was called. */
const SYSTEMCTL = `#!/bin/sh
echo "$*" >>/run/weir-test/calls
pid=$(cat /run/weir-test/pid)
case "$*" in
  *is-active*) kill -0 "$pid" ;;
  *--signal=SIGUSR2*) kill -USR2 "$pid" ;;
  *stop*) kill -TERM "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done ;;
esac
`

/** The unit's user, folder and privileges. */
const AS_UNIT = [
  ...['setpriv', '--reuid', 'weir', '--regid', 'weir', '--init-groups', '--no-new-privs', '--bounding-set=-all'],
  ...['env', '-i', '--chdir=/var/lib/weir', 'PATH=/usr/bin:/bin'],
]

async function sh(line: string): Promise<void> {
  const child = Bun.spawn(['bash', '-ec', line], {
    cwd: folder,
    // Compressing 120 MB takes half a minute, and shows nothing about weir.
    env: { ...process.env, DPKG_DEB_COMPRESSOR_TYPE: 'none', DPKG_DEB_COMPRESSOR_LEVEL: '0', GZIP: '-1' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const errors = await child.stderr.text()
  if ((await child.exited) !== 0) throw new Error(`${line}: ${errors}`)
}

beforeAll(async () => {
  if (!isDebian) return
  await sh(`${ROOT}/scripts/package ${folder}`)
  name = readdirSync(folder).find((file) => file.endsWith('.deb')) ?? ''
  version = /^weir_(.*)_amd64\.deb$/.exec(name)?.[1] ?? ''
  // A later version with a program file of its own.
  await sh(`dpkg-deb -R ${name} next && sed -i 's/^Version: .*/&+next/' next/DEBIAN/control`)
  await sh('dpkg-deb --root-owner-group -Znone --build next next.deb && rm -r next')
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The relative links of Markdown pages that lead nowhere. */
function brokenLinks(place: string): readonly string[] {
  const pages = ['README.md', 'CHANGELOG.md', ...readdirSync(join(place, 'docs')).map((file) => join('docs', file))]
  return pages
    .filter((page) => page.endsWith('.md'))
    .flatMap((page) => {
      const links = readFileSync(join(place, page), 'utf8').matchAll(/\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g)
      return Array.from(links, ([, link = '']) => join(place, page, '..', link)).filter((file) => !existsSync(file))
    })
}

test.skipIf(!isDebian)('the files, their sums, and what lintian reports', async () => {
  const tar = `weir-${version}-linux-x64.tar.gz`
  expect(readdirSync(folder).sort()).toEqual(['SHA256SUMS', 'next.deb', name, tar].sort())
  await sh('sha256sum --check SHA256SUMS')
  expect(readFileSync(join(folder, 'SHA256SUMS'), 'utf8').trim().split('\n')).toHaveLength(2)
  await sh(`mkdir unpacked && tar -xzf ${tar} -C unpacked && unpacked/*/weir version | grep -F 'weir ${version} '`)
  const unpacked = join(folder, 'unpacked', `weir-${version}-linux-x64`)
  expect(brokenLinks(unpacked)).toEqual([])
  await sh(`dpkg-deb -x ${name} unpacked/deb`)
  const doc = join(folder, 'unpacked/deb/usr/share/doc/weir')
  expect(brokenLinks(doc)).toEqual([])
  for (const place of [unpacked, doc])
    expect(await Bun.file(join(place, 'openapi.json')).json()).toHaveProperty('paths')
  // The path of the list of changes that the file of the Debian format names.
  const changes = Bun.gunzipSync(readFileSync(join(doc, 'changelog.gz')))
  const [named = ''] = /\/usr\S*\.md/.exec(Buffer.from(changes).toString()) ?? []
  expect(readFileSync(join(folder, 'unpacked/deb', named), 'utf8')).toStartWith('# Changes')
  await sh('rm -r unpacked')
  if (Bun.which('lintian') !== null) await sh(`lintian --allow-root --fail-on error ${name}`)
})

test.skipIf(Bun.which('systemd-analyze') === null)('the unit is hardened', async () => {
  await sh(`systemd-analyze security --offline=true --threshold=25 ${ROOT}/contrib/systemd/weir.service`)
  // A core dump would have keys and what callers wrote.
  expect(readFileSync(join(ROOT, 'contrib/systemd/weir.service'), 'utf8')).toMatch(/^LimitCORE=0$/m)
})

function configuration(baseUrl: string): string {
  const key = '${file:/run/credentials/weir.service/weir_fake}'
  return JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0 },
    data_dir: '/var/lib/weir',
    ledger: 'embedded',
    providers: { fake: { dialect: 'openai', base_url: baseUrl, api_key: key } },
    models: [{ name: 'small', targets: [{ provider: 'fake', model: 'up' }], price: PRICE }],
    organizations: [{ id: 'acme', keys: [{ id: 'ci', key: KEY }] }],
  })
}

/** Whether a process runs a file that is there no more. */
function isOfOldFile(pid: number): boolean {
  return readlinkSync(`/proc/${pid}/exe`).endsWith('(deleted)')
}

test.skipIf(!isDebian)('installed, started, upgraded under load, removed and purged', async () => {
  await using machine = await Machine.start(folder)
  if (machine === undefined) return console.log('not run: this system does not allow a copy of the machine')
  using upstream = pacedProvider(2)
  const as = (...command: readonly string[]) => machine.within(...AS_UNIT, ...command)
  await machine.write('/usr/local/sbin/systemctl', SYSTEMCTL, '755')
  await machine.run('mkdir -p /run/systemd/system /run/weir-test; rm -f /usr/sbin/policy-rc.d')

  expect(await machine.run(`dpkg -i /mnt/${name}`)).toMatchObject({ code: 0 })
  expect(await machine.run('stat -c "%U:%G %a" /etc/weir/weir.yaml /etc/weir/credentials /var/lib/weir')).toEqual({
    code: 0,
    output: 'root:weir 640\nroot:root 700\nweir:weir 700\n',
  })
  expect((await machine.run(`${AS_UNIT.join(' ')} weir check --strict`)).code).toBe(0)
  expect((await machine.run('/usr/bin/systemd-analyze verify /lib/systemd/system/weir.{service,socket}')).output).toBe(
    '',
  )
  expect((await machine.run('man -w weir weir.yaml')).code).toBe(0)
  expect((await machine.run('bash -n /usr/share/bash-completion/completions/weir')).code).toBe(0)

  await machine.write('/etc/weir/weir.yaml', configuration(upstream.baseUrl), '640')
  await machine.run('chgrp weir /etc/weir/weir.yaml')
  // What LoadCredential does.
  await machine.write('/run/credentials/weir.service/weir_fake', 'provider-key')
  await using weir = await Weir.ready('', ['--config', '/etc/weir/weir.yaml'], { program: as('weir') })
  await machine.write('/run/weir-test/pid', String(weir.pid))
  const before = await weir.workers()
  const load = new SteadyLoad({
    port: Number(new URL(weir.address).port),
    streams: 10,
    connectionsPerSecond: 50,
    kept: 5,
  })
  await until(() => load.answered > 50)

  expect(await machine.run('dpkg -i /mnt/next.deb')).toMatchObject({ code: 0 })
  await weir.line('workers replaced')
  await until(() => load.answered > 200)
  const [worker = 0] = (await weir.workers()).filter((pid) => !before.includes(pid))
  expect([isOfOldFile(weir.pid), isOfOldFile(worker)]).toEqual([true, false])
  expect(await weir.models()).toEqual(['small'])
  await load.finish()
  expect(load.failures.slice(0, 5)).toEqual([])
  // An administrator's configuration survives the upgrade.
  expect((await machine.run(`${AS_UNIT.join(' ')} weir check`)).code).toBe(0)
  const { output } = await machine.run(`${AS_UNIT.join(' ')} weir usage --json`)
  expect(JSON.parse(output).total.cost_micro_usd).toBe(load.answered * COST_MICRO_USD)

  expect(await machine.run('dpkg --remove weir')).toMatchObject({ code: 0 })
  expect((await weir.ended).code).toBe(0)
  expect(await lives(weir.pid)).toBe(false)
  expect((await machine.run('ls /usr/bin/weir')).code).not.toBe(0)
  expect((await machine.run('ls /var/lib/weir/ledger.sqlite /etc/weir/weir.yaml')).code).toBe(0)
  // What the pages advise to put there is secret, too.
  await machine.write('/etc/weir/environment', 'SECRET=1', '600')
  await machine.write('/etc/weir/keys/openai', 'secret', '600')
  expect(await machine.run('dpkg --purge weir')).toMatchObject({ code: 0 })
  expect((await machine.run('ls -d /var/lib/weir /etc/weir')).code).not.toBe(0)
  expect((await machine.run('cat /run/weir-test/calls')).output).not.toContain('restart')
})
