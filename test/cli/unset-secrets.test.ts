/** Commands in a shell that lacks the secrets of the service: those that need none of them work. */

import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { use, World } from './world.ts'

const FILE = `
ledger: LEDGER
data_dir: ./data
admin: { host: 0.0.0.0, port: 9090, token: "\${UNSET_TOKEN}" }
compaction: { keys: ["\${UNSET_COMPACTION}", "\${file:/nowhere/compaction}"] }
responses: { redis: "redis://:\${UNSET_REDIS}@127.0.0.1:9/0" }
providers:
  up: { dialect: openai, base_url: "https://\${UNSET_HOST}/v1", api_key: "\${UNSET_KEY}" }
  aws: { dialect: bedrock, region: eu-west-1, access_key_id: "\${UNSET_ID}", secret_access_key: "\${UNSET_SECRET}" }
models:
  - { name: small, targets: [{ provider: up, model: a }, { provider: aws, model: b }], price: { input: 1, output: 2 } }
organizations:
  - id: acme
    keys: [{ id: ci, key: "\${UNSET}" }, { id: dev, key: "\${UNSET}" }, { id: hashed, sha256: "\${UNSET_HASH}" }]
`

test('usage, audit, keys and explain need no secret of a provider or a caller', async () => {
  await using world = await World.make()
  await writeFile(join(world.folder, 'weir.yaml'), FILE.replace('LEDGER', 'embedded'))
  const ledger = await world.ledger()
  await use(ledger, { organization: 'acme', key: 'ci' }, 'small', { cost: 125 })
  await ledger.close()
  for (const [words, shown] of [
    ['usage --by provider', '$0.000125'],
    ['audit', '$0.000125'],
    ['keys list', 'hashed'],
    ['explain --key ci --model small', 'small'],
    ['keys create --org acme --id made', 'gwk_'],
    ['keys revoke --id made', ''],
  ] as const) {
    const { code, stdout, stderr } = await world.weir(...words.split(' '))
    expect([words, code, code === 0 ? '' : stderr]).toEqual([words, 0, ''])
    expect(stdout).toContain(shown)
  }
})

test('what a command uses must be there, and check wants everything', async () => {
  await using world = await World.make()
  await writeFile(join(world.folder, 'weir.yaml'), FILE.replace('LEDGER', `{ redis: "\${UNSET_LEDGER}" }`))
  const { code, stderr } = await world.weir('usage')
  expect([code, stderr]).toEqual([1, `weir.yaml:2: ledger.redis: "\${UNSET_LEDGER}" is not set in the environment\n`])
  const checked = await world.weir('check')
  expect(checked.code).toBe(1)
  for (const name of ['TOKEN', 'COMPACTION', 'REDIS', 'HOST', 'KEY', 'ID', 'SECRET', 'HASH', 'LEDGER'])
    expect(checked.stdout + checked.stderr).toContain(`"\${UNSET_${name}}" is not set`)
})
