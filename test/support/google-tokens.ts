/** A simulated token service of Google, and the key of a service account that it knows. */

import { createVerify, generateKeyPairSync } from 'node:crypto'

/** The access token that the service gives. */
export const GOOGLE_TOKEN = 'made-google-token'

const EMAIL = 'weir@project-1.iam.gserviceaccount.com'
const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'

let made: string | undefined

/** The JSON of the key. The first call makes it, and starts the service. */
export function serviceAccountKey(): string {
  made ??= start()
  return made
}

function start(): string {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      const form = new URLSearchParams(await request.text())
      const [head = '', claims = '', signature = ''] = (form.get('assertion') ?? '').split('.')
      const verify = createVerify('RSA-SHA256').update(`${head}.${claims}`)
      const { iss, scope, aud } = JSON.parse(Buffer.from(claims, 'base64url').toString() || '{}')
      const isSigned = verify.verify(publicKey, signature, 'base64url')
      if (!isSigned || iss !== EMAIL || scope !== SCOPE || aud !== request.url)
        return Response.json({ error: 'invalid_grant', error_description: 'Invalid JWT Signature.' }, { status: 400 })
      return Response.json({ access_token: GOOGLE_TOKEN, expires_in: 3600, token_type: 'Bearer' })
    },
  })
  server.unref()
  return JSON.stringify({
    type: 'service_account',
    project_id: 'project-1',
    private_key_id: 'key-1',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    client_email: EMAIL,
    token_uri: `http://127.0.0.1:${server.port}/token`,
  })
}
