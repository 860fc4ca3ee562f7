/**
 * Two gateways that a user could choose instead, installed on demand into a folder that git ignores, and started as
 * their manuals recommend for production. Neither enforces limits here: that needs a database, or a paid edition.
 */

import { mkdir, rm } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { treeOf } from '../../test/support/process-table.ts'
import { freePort, KEY, type Server } from './processes.ts'
import { KINDS, modelOf, PROVIDERS } from './traffic.ts'

const FOLDER = join(import.meta.dir, '../../.peers')
const LITELLM = '1.106.2'
const PORTKEY = '1.15.2'
const READY_MS_MAX = 120_000

/** Runs an installer with its output on standard error. Throws if it fails. */
async function install(what: string, command: readonly string[], cwd: string): Promise<void> {
  console.error(`installing ${what} into ${FOLDER}`)
  const child = Bun.spawn([...command], { cwd, stdio: ['ignore', 2, 2] })
  if ((await child.exited) !== 0) throw new Error(`${what} cannot be installed: ${command.join(' ')} failed`)
}

/** Installs both if they are missing. Throws if a program that this needs is missing. */
export async function installPeers(): Promise<void> {
  const python = Bun.which('python3')
  if (python === null) throw new Error('--peers needs python3 on PATH: LiteLLM runs on it')
  const litellm = join(FOLDER, `litellm-${LITELLM}`)
  if (!(await Bun.file(join(litellm, 'installed')).exists())) {
    await rm(litellm, { recursive: true, force: true })
    await mkdir(litellm, { recursive: true })
    await install('a Python environment', [python, '-m', 'venv', '.'], litellm)
    await install('LiteLLM', [join(litellm, 'bin/pip'), 'install', '-q', `litellm[proxy]==${LITELLM}`], litellm)
    await Bun.write(join(litellm, 'installed'), '')
  }
  const portkey = join(FOLDER, `portkey-${PORTKEY}`)
  if (!(await Bun.file(join(portkey, 'installed')).exists())) {
    await mkdir(portkey, { recursive: true })
    await Bun.write(join(portkey, 'package.json'), '{}')
    const add = ['add', '--exact', '--ignore-scripts', `@portkey-ai/gateway@${PORTKEY}`]
    await install('Portkey', [process.execPath, ...add], portkey)
    await Bun.write(join(portkey, 'installed'), '')
  }
}

/**
 * One worker for each core, no request log, no look-up of prices over the network. Gunicorn, because uvicorn's own
 * supervisor kills workers that take more than 5 s to start, which they do on a busy machine.
 */
export async function startLitellm(provider: Server): Promise<Server> {
  const folder = join(FOLDER, `litellm-${LITELLM}`)
  const api_base = `http://127.0.0.1:${provider.port}/v1`
  const config = {
    model_list: PROVIDERS.flatMap((name) =>
      KINDS.map((kind) => {
        const model_name = modelOf(kind, name)
        return { model_name, litellm_params: { model: `openai/${model_name}`, api_base, api_key: 'key' } }
      }),
    ),
    litellm_settings: { set_verbose: false, telemetry: false, request_timeout: 600 },
    general_settings: { master_key: KEY, disable_error_logs: true },
  }
  await Bun.write(join(folder, 'bench.yaml'), JSON.stringify(config))
  const port = freePort()
  const flags = ['--config', 'bench.yaml', '--host', '127.0.0.1', '--telemetry', 'False']
  const workers = ['--port', String(port), '--num_workers', String(cpus().length), '--run_gunicorn']
  const server = await started(
    `LiteLLM ${LITELLM}`,
    port,
    [join(folder, 'bin/litellm'), ...flags, ...workers],
    folder,
    {
      LITELLM_MODE: 'PRODUCTION',
      LITELLM_LOG: 'ERROR',
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      NO_DOCS: 'True',
    },
  )
  return { ...server, interpreted: true }
}

/**
 * One process: Portkey has no workers. On Bun, because on Node 20 it answers every stream with status 500 (it changes
 * the headers of an answer of `fetch`, which are immutable there). Headers of the request select the provider.
 */
export async function startPortkey(provider: Server): Promise<Server> {
  const folder = join(FOLDER, `portkey-${PORTKEY}`)
  const port = freePort()
  const script = join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js')
  const command = [process.execPath, script, `--port=${port}`, '--headless']
  const server = await started(`Portkey ${PORTKEY}`, port, command, folder, {
    NODE_ENV: 'production',
    TRUSTED_CUSTOM_HOSTS: '127.0.0.1,localhost',
  })
  const host = `http://127.0.0.1:${provider.port}/v1`
  return { ...server, headers: `x-portkey-provider: openai\r\nx-portkey-custom-host: ${host}\r\n` }
}

async function started(
  name: string,
  port: number,
  command: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>>,
): Promise<Server> {
  const log = join(cwd, 'log')
  await Bun.write(log, '')
  const child = Bun.spawn([...command], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: cwd, ...env },
    stdio: ['ignore', Bun.file(log), Bun.file(log)],
  })
  // Its workers would outlive it.
  const dispose = async () => {
    for (const pid of treeOf(child.pid)) process.kill(pid, 'SIGKILL')
    await child.exited
  }
  const deadline = performance.now() + READY_MS_MAX
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined)
    if (answer !== undefined) break
    const ended = child.exitCode !== null
    if (ended || performance.now() > deadline) {
      if (!ended) await dispose()
      throw new Error(`${name} does not start: ${(await Bun.file(log).text()).slice(-2000)}`)
    }
    await Bun.sleep(100)
  }
  return { name, port, pid: child.pid, converts: false, [Symbol.asyncDispose]: dispose }
}
