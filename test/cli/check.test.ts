/** `weir check` and `weir explain` as operators use them: as processes, with their output and exit codes. */

import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BASE, edited } from '../config/fixture.ts'
import { PROGRAM } from '../process/weir.ts'

const directory = await mkdtemp(join(tmpdir(), 'weir-check-'))

afterAll(() => rm(directory, { recursive: true, force: true }))

async function weir(...args: readonly string[]) {
  const child = Bun.spawn([...PROGRAM, ...args], {
    cwd: directory,
    env: { PATH: process.env['PATH'], OPENAI_API_KEY: 'sk-canary' },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { stdout, stderr, code }
}

await writeFile(join(directory, 'weir.yaml'), BASE)
await writeFile(
  join(directory, 'bad.yaml'),
  edited('provider: openai, model: gpt-1', 'provider: opnai, model: x', edited('id: acme', 'id: ""')),
)

describe('weir check', () => {
  test('a valid file: one line, exit code 0', async () =>
    expect(await weir('check')).toEqual({
      stdout: 'weir.yaml: ok (2 providers, 3 models, 1 organisation, 2 keys)\n',
      stderr: '',
      code: 0,
    }))

  test('an invalid file: every problem on a line of standard error, exit code 1', async () =>
    expect(await weir('check', '--config', 'bad.yaml')).toEqual({
      stdout: '',
      stderr: `bad.yaml:8: models[0].targets[0].provider: no provider is named "opnai" (did you mean "openai"?)
bad.yaml:20: organizations[0].id: must be 1 to 64 letters, digits or ._@- and begin with a letter or digit (found "")
`,
      code: 1,
    }))

  test('no file: exit code 1', async () => {
    const { code, stderr } = await weir('check', '--config', 'none.yaml')
    expect([code, stderr.split('\n').length]).toEqual([1, 2])
    expect(stderr).toStartWith('none.yaml: there is no such file')
  })

  test('wrong usage: exit code 2; help: 0', async () => {
    for (const args of [['--confg', 'x'], ['extra'], ['--config']]) {
      const { code, stdout, stderr } = await weir('check', ...args)
      expect([code, stdout, stderr.trim().split('\n').length]).toEqual([2, '', 1])
    }
    const help = await weir('check', '--help')
    expect([help.code, help.stderr]).toEqual([0, ''])
    expect(help.stdout).toStartWith('Usage: weir check')
  })
})

describe('warnings', () => {
  const text = edited('input: 0.25', 'input: 0.00000025')
  const warning =
    'doubtful.yaml:10: warning: models[0].price.input: 0.00000025 dollars per million tokens is far below any price; ' +
    'prices are per million (0.25 if this one is per token)\n'

  test('do not change the exit code; with --strict they do', async () => {
    await writeFile(join(directory, 'doubtful.yaml'), text)
    const ok = 'doubtful.yaml: ok (2 providers, 3 models, 1 organisation, 2 keys)\n'
    expect(await weir('check', '--config', 'doubtful.yaml')).toEqual({ stdout: ok, stderr: warning, code: 0 })
    expect(await weir('check', '--config', 'doubtful.yaml', '--strict')).toEqual({
      stdout: '',
      stderr: warning,
      code: 1,
    })
    expect((await weir('check', '--strict')).code).toBe(0)
  })

  test('follow the errors', async () => {
    await writeFile(join(directory, 'both.yaml'), edited('id: acme', 'id: ""', text))
    const { stderr, code } = await weir('check', '--config', 'both.yaml')
    expect(stderr.split('\n').map((line) => line.split(': ', 2).join(': '))).toEqual([
      'both.yaml:20: organizations[0].id',
      'both.yaml:10: warning',
      '',
    ])
    expect(code).toBe(1)
  })
})

describe('check --providers', () => {
  const bodies: Record<string, unknown>[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      if (request.url.endsWith('/models')) {
        const pricing = { prompt: '0.00000025', completion: '0.000002' }
        return Response.json({ data: [{ id: 'known', pricing }, { id: 'painter' }, 'nonsense'] })
      }
      const body = (await request.json()) as Record<string, unknown>
      bodies.push({ ...body, path: new URL(request.url).pathname })
      if (request.headers.get('authorization') !== 'Bearer good')
        return Response.json({ error: { message: 'Incorrect API key provided: sk-canary' } }, { status: 401 })
      if (request.url.endsWith('/images/generations')) return Response.json({ created: 1, data: [{ b64_json: '' }] })
      if (body['model'] === 'known')
        return Response.json({ choices: [{ message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }] })
      if (body['model'] === 'picky')
        return Response.json({ error: { message: 'max_tokens must be at least 100' } }, { status: 400 })
      if (body['model'] === 'alone' && request.url.endsWith('/responses')) {
        if ('include' in body)
          return Response.json(
            { error: { message: 'Encrypted content is not supported.', param: 'include' } },
            { status: 400 },
          )
        return Response.json({ status: 'completed', output: [] })
      }
      if (body['model'] === 'alone')
        return Response.json({ error: { message: 'This model is only supported in v1/responses.' } }, { status: 404 })
      if (body['model'] === 'broken') return new Response('<html>', { status: 502 })
      return Response.json({ error: { message: 'The model does not exist', code: 'model_not_found' } }, { status: 404 })
    },
  })
  afterAll(() => server.stop(true))

  const entry = ([provider, model]: readonly [string, string], at: number) => {
    const supports = model === 'painter' ? '[image_generation]' : '[]'
    return `  - { name: m${at}, targets: [{ provider: ${provider}, model: ${model} }], supports: ${supports} }`
  }
  const file = (models: readonly (readonly [provider: string, model: string])[]) => `
providers:
  good: { dialect: openai, base_url: "${server.url}v1", api_key: good }
  bad: { dialect: openai, base_url: "${server.url}v1", api_key: bad }
  gone: { dialect: openai, base_url: "http://127.0.0.1:9/v1", api_key: good }
models:
${models.map(entry).join('\n')}
organizations: [{ id: acme }]
`

  test('a price that is far from the published one is a warning', async () => {
    const prices = ['input: 0.4, output: 2', 'input: 0.6, output: 2', 'input: 0.25, output: 0.5', 'input: 0, output: 4']
    const targets = 'targets: [{ provider: good, model: known }]'
    const lines = [
      `providers: { good: { dialect: openai, base_url: "${server.url}v1", api_key: good } }`,
      'models:',
      ...prices.map((price, at) => `  - { name: m${at}, ${targets}, price: { ${price} } }`),
      'organizations: [{ id: acme }]',
    ]
    await writeFile(join(directory, 'priced.yaml'), lines.join('\n'))
    const { code, stderr } = await weir('check', '--config', 'priced.yaml', '--providers')
    expect([code, stderr.trim().split('\n')]).toEqual([
      0,
      [
        'warning: models[1].price.input: 0.6 dollars per million tokens, but good lists 0.25 for known',
        'warning: models[2].price.output: 0.5 dollars per million tokens, but good lists 2 for known',
        'warning: models[3].price.input: 0 dollars per million tokens, but good lists 0.25 for known',
      ],
    ])
    expect((await weir('check', '--config', 'priced.yaml', '--providers', '--strict')).code).toBe(1)
  })

  test('all are well: exit code 0, and the smallest request', async () => {
    await writeFile(
      join(directory, 'probed.yaml'),
      file([
        ['good', 'known'],
        ['good', 'painter'],
        ['good', 'alone'],
      ]),
    )
    const { code, stdout } = await weir('check', '--config', 'probed.yaml', '--providers')
    expect(stdout.split('\n').map((line) => line.replace(/ +(?:\d+|ms)$/, ''))).toEqual([
      'probed.yaml: ok (3 providers, 3 models, 1 organisation, 0 keys)',
      'provider  model    reachable  credential  model is',
      'good      known    yes        accepted    known',
      'good      painter  yes        accepted    known',
      'good      alone    yes        accepted    known',
      '',
    ])
    expect(code).toBe(0)
    expect(bodies).toContainEqual(expect.objectContaining({ model: 'known', path: '/v1/chat/completions' }))
    expect(bodies).toContainEqual(expect.objectContaining({ model: 'painter', n: 1, path: '/v1/images/generations' }))
  })

  test('each way to fail has its row and its reason: exit code 1', async () => {
    const targets = [
      ['good', 'known'],
      ['good', 'none'],
      ['good', 'picky'],
      ['good', 'broken'],
      ['bad', 'known'],
      ['gone', 'known'],
    ] as const
    await writeFile(join(directory, 'failing.yaml'), file(targets))
    const { code, stdout, stderr } = await weir('check', '--config', 'failing.yaml', '--providers')
    expect(
      stdout
        .split('\n')
        .slice(2)
        .map((line) => line.replace(/ +\d+$/, '').replaceAll(/ +/g, ' ')),
    ).toEqual([
      'good known yes accepted known',
      'good none yes accepted unknown',
      'good picky yes accepted known',
      'good broken yes unknown unknown',
      'bad known yes rejected unknown',
      'gone known no unknown unknown',
      '',
    ])
    expect(stderr).toContain('good none: 404: The model does not exist\n')
    expect(stderr).toContain('good picky: 400: max_tokens must be at least 100\n')
    expect(stderr).toContain('gone known: the provider cannot be reached (ECONNREFUSED)\n')
    expect(stderr).not.toContain('canary')
    expect(stderr.trimEnd().split('\n')).toHaveLength(5)
    expect(code).toBe(1)
  })

  test('a configuration with problems asks no provider', async () => {
    const count = bodies.length
    await writeFile(
      join(directory, 'unsent.yaml'),
      file([
        ['good', 'known'],
        ['godo', 'known'],
      ]),
    )
    expect((await weir('check', '--config', 'unsent.yaml', '--providers')).code).toBe(1)
    expect(bodies.length).toBe(count)
  })
})

describe('weir explain', () => {
  test('an allowed model: the candidates in order with their prices, and the limits', async () => {
    const { code, stdout } = await weir('explain', '--key', 'ci', '--model', 'mini')
    expect(code).toBe(0)
    expect(stdout.replace(/\d{4}-\d\d-\d\d/, 'TOMORROW')).toBe(`key "ci" of organisation "acme" asks for "mini"
admitted: gpt at openai (gpt-1) is asked first
automatic selection: available
compatibility: reasoning off, structured_output off, content off, tools functions, betas off, \
status completed, provider_errors rewritten, metadata refuse
gpt: allowed, nothing excludes it
claude: allowed, nothing excludes it
candidates, in order:
  1. gpt at openai (gpt-1); input $0.25, cached input $0.025, output $2.00 a million tokens\
; takes no images, takes no tools
  2. claude at anthropic (claude-1); input $3.00, output $15.00 a million tokens; takes no images, takes no tools
which targets rest is unknown: no gateway runs with this data_dir
limits of organisation "acme": $50.00 a day ($50.00 left, renews TOMORROW)
limits of key "ci": none
`)
  })

  test('what is denied: by which rule, and the error that the caller gets', async () => {
    const file = edited(
      'auto: available',
      'auto: available\n    rules: [{ allow: [claude] }, { deny: ["g*"], keys: [ci] }]',
    )
    await writeFile(join(directory, 'rules.yaml'), file)
    const { stdout } = await weir('explain', '--key', 'ci', '--model', 'gpt', '--config', 'rules.yaml')
    expect(stdout).toContain('gpt: denied, by rules[1] of organisation "acme"\n')
    expect(stdout).toContain('claude: allowed, by rules[0] of organisation "acme"\n')
    expect(stdout).toContain('rejected: 403 model_not_allowed: ')
    const auto = await weir('explain', '--key', 'ci', '--model', 'auto', '--config', 'rules.yaml')
    expect(auto.stdout).toContain('  1. claude at anthropic')
  })

  test('an unknown key: 1; flags that are missing: 2; a bad file: 1', async () => {
    const unknown = await weir('explain', '--key', 'cj', '--model', 'gpt')
    expect([unknown.code, unknown.stderr]).toEqual([1, 'weir: no key has the id "cj" (did you mean "ci"?)\n'])
    expect((await weir('explain', '--key', 'ci')).code).toBe(2)
    expect((await weir('explain', '--key', 'ci', '--model', 'gpt', '--config', 'bad.yaml')).code).toBe(1)
    expect((await weir('explain', '--help')).stdout).toStartWith('Usage: weir explain')
  })
})
