/** AWS Signature Version 4 for one request, made by AWS's own package with the runtime's hashing. */

import { SignatureV4 } from '@smithy/signature-v4'
import type { BytePieces } from '../core/byte-pieces.ts'
import type { AwsKeys } from './aws-credentials.ts'

type SecretBytes = string | ArrayBuffer | ArrayBufferView

/** SHA-256 (HMAC if there is a secret) in the interface of the signer. */
class Sha256 {
  private hasher: Bun.CryptoHasher

  constructor(private readonly secret?: SecretBytes) {
    this.hasher = hasherOf(secret)
  }

  update(data: Uint8Array): void {
    this.hasher.update(data)
  }

  async digest(): Promise<Uint8Array> {
    return new Uint8Array(this.hasher.digest())
  }

  reset(): void {
    this.hasher = hasherOf(this.secret)
  }
}

function hasherOf(secret: SecretBytes | undefined): Bun.CryptoHasher {
  if (secret === undefined) return new Bun.CryptoHasher('sha256')
  return new Bun.CryptoHasher('sha256', typeof secret === 'string' ? secret : bytesOf(secret))
}

function bytesOf(secret: ArrayBuffer | ArrayBufferView): Uint8Array {
  return ArrayBuffer.isView(secret)
    ? new Uint8Array(secret.buffer, secret.byteOffset, secret.byteLength)
    : new Uint8Array(secret)
}

/**
 * The given headers and those of the signature: `authorization`, `x-amz-date`, `x-amz-content-sha256`, and with
 * temporary credentials `x-amz-security-token`. The host, the given headers, the path, the query and the body are
 * signed; other headers may be added later.
 */
export async function signatureHeaders(
  region: string,
  { accessKeyId, secretAccessKey, sessionToken }: AwsKeys,
  address: string,
  headers: Readonly<Record<string, string>>,
  body: string | BytePieces,
  method: 'GET' | 'POST' = 'POST',
): Promise<Record<string, string>> {
  const credentials = { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? undefined : { sessionToken }) }
  const signer = new SignatureV4({ service: 'bedrock', region, credentials, sha256: Sha256 })
  const url = new URL(address)
  const hasher = new Bun.CryptoHasher('sha256')
  for (const piece of typeof body === 'string' ? [body] : body) hasher.update(piece)
  const signed = await signer.sign({
    method,
    protocol: url.protocol,
    hostname: url.hostname,
    // The path as it is sent; the signer escapes it once more, which every service but S3 requires.
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    // With the hash of the body the signer needs no body.
    headers: { ...headers, host: url.host, 'x-amz-content-sha256': hasher.digest('hex') },
  })
  // `fetch` sets the host itself.
  const { host: _, ...rest } = signed.headers
  return rest
}
