/** `credentials: default`: the running program against simulated metadata services of AWS, Azure and Google. */

import { afterAll, describe, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { serviceAccountKey } from '../support/google-tokens.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'

const folder = await mkdtemp(join(tmpdir(), 'weir-identity-'))
afterAll(() => rm(folder, { recursive: true }))

const price = { input: 1, output: 1 }

/** A metadata service: answers by path, and records what it was asked. */
class Metadata implements Disposable {
  readonly asked: { readonly path: string; readonly headers: Headers; readonly body: string }[] = []
  private readonly server: Bun.Server<undefined>

  constructor(answer: (path: string, count: number) => Response | Promise<Response>) {
    this.server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: async (request) => {
        const { pathname: path, search } = new URL(request.url)
        this.asked.push({ path: path + search, headers: request.headers, body: await request.text() })
        return await answer(path, this.asked.length)
      },
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.port}`
  }

  [Symbol.dispose](): void {
    void this.server.stop(true)
  }
}

const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString()
const awsKeys = (id: string, expiration = inAnHour()) => ({
  Code: 'Success',
  AccessKeyId: id,
  SecretAccessKey: 'made-secret',
  Token: 'made-session',
  Expiration: expiration,
})

const ENTRIES = {
  bedrock: { dialect: 'bedrock', region: 'eu-west-1', credentials: 'default' },
  azure: { dialect: 'azure', api_version: '2025-04-01', credentials: 'default' },
  vertex: { dialect: 'vertex', project: 'project-1', location: 'europe-west1', credentials: 'default' },
}

interface Stage extends AsyncDisposable {
  readonly upstream: Upstream
  readonly gateway: Gateway
  ask(): Promise<number>
}

async function stage(dialect: keyof typeof ENTRIES, env: Readonly<Record<string, string>>): Promise<Stage> {
  const upstream = await Upstream.start()
  upstream.otherwise(speaks(dialect, () => textAnswer('yes')))
  const gateway = await Gateway.start({
    providers: { cloud: { ...ENTRIES[dialect], base_url: `http://127.0.0.1:${upstream.port}` } },
    models: { m: { targets: [{ provider: 'cloud', model: 'anthropic.claude' }], price } },
    env: { AWS_MAX_ATTEMPTS: '1', ...env },
  })
  const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
  return {
    upstream,
    gateway,
    ask: async () => (await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))).status,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

describe('bedrock', () => {
  test('an instance role, by version 2 of the metadata service', async () => {
    using metadata = new Metadata((path) => {
      if (path === '/latest/api/token') return new Response('metadata-token')
      if (path.endsWith('/security-credentials/')) return new Response('my-role')
      return Response.json(awsKeys('AKIAINSTANCE'))
    })
    await using on = await stage('bedrock', { AWS_EC2_METADATA_SERVICE_ENDPOINT: metadata.url })
    expect(await on.ask()).toBe(200)
    expect(await on.ask()).toBe(200)
    const [first, second] = on.upstream.calls
    expect(first?.header('authorization')).toContain('Credential=AKIAINSTANCE/')
    expect(first?.header('x-amz-security-token')).toBe('made-session')
    expect(second?.header('authorization')).toContain('Credential=AKIAINSTANCE/')
    const read = metadata.asked.filter(({ path }) => path.endsWith('/my-role'))
    expect([read.length, read[0]?.headers.get('x-aws-ec2-metadata-token')]).toEqual([1, 'metadata-token'])
  })

  test('a container role, whose token file is sent; credentials that are about to expire are replaced', async () => {
    const file = join(folder, 'token')
    await writeFile(file, 'container-token')
    const soon = () => new Date(Date.now() + 2000).toISOString()
    using metadata = new Metadata((_, count) => Response.json(awsKeys(`AKIACONTAINER${count}`, soon())))
    await using on = await stage('bedrock', {
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${metadata.url}/role`,
      AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
    })
    expect(await on.ask()).toBe(200)
    expect(metadata.asked[0]?.headers.get('authorization')).toBe('container-token')
    // Requests go on, and at some time carry newer keys.
    while (on.upstream.calls.every((call) => call.header('authorization')?.includes('AKIACONTAINER1/')))
      expect(await on.ask()).toBe(200)
    expect(on.upstream.calls.at(-1)?.header('authorization')).toContain('AKIACONTAINER')
  })

  test('a web identity', async () => {
    const file = join(folder, 'identity')
    await writeFile(file, 'web-identity-token')
    using metadata = new Metadata(
      () =>
        new Response(
          `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
            <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AKIAWEB</AccessKeyId>
            <SecretAccessKey>made-secret</SecretAccessKey><SessionToken>made-session</SessionToken>
            <Expiration>${inAnHour()}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
          </AssumeRoleWithWebIdentityResponse>`,
          { headers: { 'content-type': 'text/xml' } },
        ),
    )
    await using on = await stage('bedrock', {
      AWS_WEB_IDENTITY_TOKEN_FILE: file,
      AWS_ROLE_ARN: 'arn:aws:iam::123456789012:role/weir',
      AWS_ENDPOINT_URL_STS: metadata.url,
    })
    expect(await on.ask()).toBe(200)
    expect(metadata.asked[0]?.body).toContain('web-identity-token')
    expect(on.upstream.calls[0]?.header('authorization')).toContain('Credential=AKIAWEB/')
  })

  test('without any, the request fails, the log has the reason, and the caller learns nothing', async () => {
    using metadata = new Metadata(() => new Response('no role here', { status: 404 }))
    await using on = await stage('bedrock', { AWS_EC2_METADATA_SERVICE_ENDPOINT: metadata.url })
    expect(await on.ask()).toBe(502)
    expect(on.upstream.calls).toEqual([])
    const line = await on.gateway.line(({ event }) => event === 'provider.credential_rejected')
    expect(line).toMatchObject({ provider: 'cloud', why: expect.stringContaining('no AWS credentials') })
  })
})

describe('azure', () => {
  test('a managed identity, whose token is kept until it expires', async () => {
    using metadata = new Metadata(() => {
      const seconds = Math.floor(Date.now() / 1000) + 3600
      return Response.json({ access_token: 'made-token', expires_on: String(seconds), token_type: 'Bearer' })
    })
    await using on = await stage('azure', {
      IDENTITY_ENDPOINT: `${metadata.url}/msi`,
      IDENTITY_HEADER: 'secret-header',
    })
    expect(await on.ask()).toBe(200)
    expect(await on.ask()).toBe(200)
    expect(on.upstream.calls.map((call) => call.header('authorization'))).toEqual([
      'Bearer made-token',
      'Bearer made-token',
    ])
    expect(on.upstream.calls[0]?.header('api-key')).toBeUndefined()
    expect(metadata.asked.length).toBe(1)
    expect(metadata.asked[0]?.headers.get('x-identity-header')).toBe('secret-header')
    expect(metadata.asked[0]?.path).toContain('resource=https%3A%2F%2Fcognitiveservices.azure.com')
  })

  test('without any, the log has the reason', async () => {
    using metadata = new Metadata(() => Response.json({ error: 'no identity' }, { status: 400 }))
    await using on = await stage('azure', {
      IDENTITY_ENDPOINT: `${metadata.url}/msi`,
      IDENTITY_HEADER: 'secret-header',
    })
    expect(await on.ask()).toBe(502)
    const line = await on.gateway.line(({ event }) => event === 'provider.credential_rejected')
    expect(line).toMatchObject({ provider: 'cloud', why: expect.stringContaining('no access token') })
  })
})

describe('vertex', () => {
  /** No file of the person who runs the tests. */
  const home = { HOME: folder, CLOUDSDK_CONFIG: folder }

  test('the account of the machine or pod, by the metadata server', async () => {
    using metadata = new Metadata((path) => {
      const headers = { 'metadata-flavor': 'Google' }
      if (!path.endsWith('/token')) return new Response('ok', { headers })
      return Response.json({ access_token: 'made-token', expires_in: 3600, token_type: 'Bearer' }, { headers })
    })
    await using on = await stage('vertex', { ...home, GCE_METADATA_HOST: new URL(metadata.url).host })
    expect(await on.ask()).toBe(200)
    expect(await on.ask()).toBe(200)
    expect(on.upstream.calls.map((call) => call.header('authorization'))).toEqual([
      'Bearer made-token',
      'Bearer made-token',
    ])
    expect(on.upstream.calls[0]?.path).toBe(
      '/v1/projects/project-1/locations/europe-west1/publishers/google/models/anthropic.claude:generateContent',
    )
    const read = metadata.asked.filter(({ path }) => path.includes('/service-accounts/default/token'))
    expect([read.length, read[0]?.headers.get('metadata-flavor')]).toEqual([1, 'Google'])
  })

  test('a workload identity federation, whose file the environment names', async () => {
    using tokens = new Metadata((path) =>
      path === '/subject'
        ? new Response('subject-token')
        : Response.json({
            ...{ access_token: 'federated-token', expires_in: 3600, token_type: 'Bearer' },
            issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
          }),
    )
    const file = join(folder, 'federation.json')
    const federation = {
      type: 'external_account',
      audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/own',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      token_url: `${tokens.url}/exchange`,
      credential_source: { url: `${tokens.url}/subject` },
    }
    await writeFile(file, JSON.stringify(federation))
    await using on = await stage('vertex', { ...home, GOOGLE_APPLICATION_CREDENTIALS: file })
    expect(await on.ask()).toBe(200)
    expect(on.upstream.calls[0]?.header('authorization')).toBe('Bearer federated-token')
    expect(tokens.asked.find(({ path }) => path === '/exchange')?.body).toContain('subject_token=subject-token')
  })

  test('a metadata server that starts later is found by a later request', async () => {
    let isUp = false
    using metadata = new Metadata((path) => {
      const headers = { 'metadata-flavor': 'Google' }
      if (!isUp) return new Response('not yet', { status: 404 })
      if (!path.endsWith('/token')) return new Response('ok', { headers })
      return Response.json({ access_token: 'made-token', expires_in: 3600, token_type: 'Bearer' }, { headers })
    })
    await using on = await stage('vertex', { ...home, GCE_METADATA_HOST: new URL(metadata.url).host })
    expect(await on.ask()).toBe(502)
    const line = await on.gateway.line(({ event }) => event === 'provider.credential_rejected')
    expect(line).toMatchObject({ provider: 'cloud', why: expect.stringContaining('no access token from this machine') })
    isUp = true
    // The target rests after the failure.
    while ((await on.ask()) !== 200) await Bun.sleep(50)
    expect(on.upstream.calls.at(-1)?.header('authorization')).toBe('Bearer made-token')
  })

  test('a service account whose key is rejected: the log has the reason, and nothing of the key', async () => {
    const { private_key: _, ...own } = JSON.parse(serviceAccountKey())
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const pem = String(privateKey.export({ type: 'pkcs8', format: 'pem' }))
    await using upstream = await Upstream.start()
    const service_account = JSON.stringify({ ...own, private_key: pem })
    const place = { dialect: 'vertex', project: 'project-1', location: 'global', service_account }
    await using gateway = await Gateway.start({
      providers: { cloud: { ...place, base_url: `http://127.0.0.1:${upstream.port}` } },
      models: { m: { targets: [{ provider: 'cloud', model: 'gemini-2.5-flash' }], price } },
    })
    const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
    const answer = await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
    expect(answer.status).toBe(502)
    expect(upstream.calls).toEqual([])
    const line = await gateway.line(({ event }) => event === 'provider.credential_rejected')
    expect(line).toMatchObject({ why: expect.stringContaining('for the service account key: invalid_grant') })
    expect(JSON.stringify(line)).not.toContain('PRIVATE KEY')
    expect(answer.text).not.toContain('gserviceaccount')
  })
})
