/**
 * Makes `docs/configuration.md` from the schema of the configuration: a section for each top-level setting, a row
 * for each setting in it.
 */

import type { TSchema } from '@sinclair/typebox'
import { PROVIDER_DIALECTS, providerDialects } from '../src/config/provider-dialects.ts'
import { schema } from '../src/config/schema-file.ts'
import { isArray, isObject } from '../src/core/json.ts'
import { RESTART_KEYS } from '../src/process/children/reload.ts'

const HEAD = `# Configuration

weir reads one YAML file: the one named by \`--config FILE\`, else \`weir.yaml\` in the working directory, else
\`/etc/weir/weir.yaml\`. This page describes every setting; "key" means an API key. It is generated from
the schema that weir checks the file with: after a change of \`src/config/schema-*.ts\`, run
\`bun scripts/write-schema.ts\`.

A small configuration:

\`\`\`yaml
providers:
  openai: { dialect: openai, api_key: "\${OPENAI_API_KEY}" }
models:
  - name: gpt-5-mini
    targets: [{ provider: openai, model: gpt-5-mini-2025-08-07 }]
    price: { input: 0.25, cached_input: 0.025, output: 2.00 }
    supports: [tools, images]
organizations:
  - id: acme
    keys: [{ id: ci, key: "\${WEIR_CI_KEY}" }]
\`\`\`

\`providers\`, \`models\` and \`organizations\` are required; everything else has a default. \`weir.example.yaml\`
is a longer example with comments, and \`docs/weir.schema.json\` is the JSON Schema for editors.

## Check a file

\`weir check\` reads the file exactly as \`weir serve\` does and reports all problems at once, each with its line and
path:

\`\`\`text
weir.yaml:12: models[2].targets[0].provider: no provider is named "opnai" (did you mean "openai"?)
\`\`\`

It exits with 0 if the file is valid, else with 1. Values that are probably not meant, such as a price per token, are
warnings, which do not change that, except with \`--strict\`. \`--providers\` also asks every provider. An unknown
setting is an error, so that a typing mistake never goes unnoticed.

## Secrets and variables

| Written | Replaced by |
|---|---|
| \`\${NAME}\` | the environment variable \`NAME\` |
| \`\${file:PATH}\` | the file \`PATH\` without its last line break; a relative path starts at the configuration file |

References work inside any string, also more than once. A missing variable or file is an error. Quote a reference
inside \`{ }\` and \`[ ]\`: \`{ api_key: "\${OPENAI_API_KEY}" }\`. A reference that is a whole unquoted value can
stand for a number or for \`true\` and \`false\`: \`drain_seconds: \${DRAIN}\`. \`$NAME\` without braces is an
error, because it would be taken as the secret itself. weir never prints the value of a reference: problems show the
reference, and a secret that is written in the file is not shown.

## Change the configuration of a running gateway

Run \`weir reload\`, or send SIGHUP to \`weir serve\`. weir checks the whole file first; then all workers switch to
it, from the next request on. Running requests finish under the configuration that they began with. If the file has a
problem, nothing changes, and the log line \`config.rejected\` lists the problems. Streams of an API key that was
removed or disabled are cut within 10 s.

RESTART

## Units

Money is in US dollars: prices per million tokens, as providers publish them, and spend limits in dollars. Days and
months are calendar days and months in UTC. The name of a setting ends with its unit (\`_ms\`, \`_seconds\`, \`_days\`,
\`_bytes\`).
`

/** An example for each section. Together they are one valid file. */
export const EXAMPLES: Readonly<Record<string, string>> = {
  listen: 'listen: { host: 0.0.0.0, port: 8080, explain_header: true }',
  admin: 'admin: { host: 127.0.0.1, port: 9090 }',
  workers: 'workers: 4',
  data_dir: 'data_dir: /var/lib/weir',
  drain_seconds: 'drain_seconds: 600',
  node_name: 'node_name: gateway-1',
  owned_by: 'owned_by: weir',
  ledger: `ledger: { redis: "rediss://weir:\${REDIS_PASSWORD}@redis.internal:6380/0", timeout_ms: 250 }
# or: ledger: embedded
# or: ledger: { redis: { cluster: ["redis://a:6379", "redis://b:6379"] } }
# or: ledger: { redis: { sentinels: ["redis://s1:26379", "redis://s2:26379"], name: mymaster } }
# with a CA of your own: ledger: { redis: "rediss://…", tls: { ca: "\${file:/etc/weir/redis-ca.pem}" } }`,
  ledger_unreachable: 'ledger_unreachable: allow',
  shortcuts: 'shortcuts: false',
  audit: 'audit: { keep_days: 90 }',
  log: 'log: { format: auto }',
  tracing: 'tracing: { endpoint: "http://127.0.0.1:4318", sample: 0.01 }',
  alerts: `alerts:
  spend: [0.5, 0.8, 1]
  hooks:
    - { url: "https://example.org/hook", secret: "\${WEIR_ALERT_SECRET}" }
    - { url: "\${SLACK_WEBHOOK}", format: slack, events: ["spend.*", key.expiring] }`,
  metrics: 'metrics: { key_label: false }',
  tags: 'tags: [project, team]',
  responses: 'responses: { remember_items_seconds: 3600 }',
  continuity: 'continuity: { keep_seconds: 86400 }',
  compatibility: 'compatibility: { tool_result_images: pass, image_urls: public }',
  compaction: `compaction: { keys: ["\${WEIR_COMPACTION_KEY}", "\${WEIR_OLD_COMPACTION_KEY}"] }`,
  providers: `providers:
  openai: { dialect: openai, api_key: "\${OPENAI_API_KEY}" }
  anthropic: { dialect: anthropic, api_key: "\${ANTHROPIC_API_KEY}", headers: { x-team: platform } }
  azure:
    dialect: azure
    base_url: https://my-resource.openai.azure.com
    api_key: "\${AZURE_API_KEY}"
    api_version: 2025-04-01-preview
  aws:
    dialect: bedrock
    region: eu-west-1
    access_key_id: "\${AWS_ACCESS_KEY_ID}"
    secret_access_key: "\${AWS_SECRET_ACCESS_KEY}"
  # vLLM, Ollama, llama.cpp and other servers with this API:
  local: { dialect: openai, base_url: http://127.0.0.1:8000/v1, first_byte_timeout_ms: 120000 }`,
  prices: 'prices: { warn_after_days: 90 }',
  models: `models:
  - name: gpt-5-mini
    aliases: [mini]
    targets:
      - { provider: openai, model: gpt-5-mini-2025-08-07 }
      - { provider: azure, model: my-deployment }
    fallbacks: [claude-sonnet]
    price: { input: 0.25, cached_input: 0.025, output: 2.00 }
    context_window: 400000
    max_output_tokens: 128000
    supports: [tools, images]
    prompt_cache: { key: true }
  - name: claude-sonnet
    targets:
      - { provider: anthropic, model: claude-sonnet-4-5 }
      - { provider: aws, model: eu.anthropic.claude-sonnet-4-5-20250929-v1:0 }
    price: { input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6, output: 15 }
    context_window: 200000
    max_output_tokens: 64000
    supports: [tools, images]
    prompt_cache: { explicit: true, ttls: [5m, 1h] }
  - name: gpt-image
    targets: [{ provider: openai, model: gpt-image-1 }]
    price: { image: 0.04 }
    supports: [image_generation]`,
  auto: 'auto: { candidates: [gpt-5-mini, claude-sonnet] }',
  queue: 'queue: { max_wait_ms: 30000, max_waiting: 10000 }',
  routing: 'routing: { max_attempts: 3, total_timeout_ms: 600000 }',
  organizations: `organizations:
  - id: acme
    models: ["*"]
    rules:
      - { deny: ["gpt-image*"], keys: ["ci-*"] }
    auto: available
    limits:
      requests_per_minute: 600
      tokens_per_minute: 400000
      concurrent_requests: 200
      spend: { day: 50, month: 500 }
    keys:
      - id: app
        key: "\${WEIR_APP_KEY}"
      - id: ci-main
        sha256: "\${WEIR_CI_KEY_SHA256}"
        models: ["gpt-5-*"]
        limits: { spend: { day: 5 } }
        expires_at: 2027-01-01`,
}

/** The Markdown of the page. */
export function configurationPage(): string {
  const written = new Map<string, string>()
  const fixed = RESTART_KEYS.map((key) => `\`${key}\``).join(', ')
  const restart =
    'Some settings cannot change without a restart, and a reload that changes one of them is rejected as a whole: ' +
    `${fixed}.`
  const sections = Object.entries(schema.properties).map(([name, section]) => sectionOf(name, section, written))
  return [HEAD.replace('RESTART', wrapped(restart)), ...sections].join('\n')
}

function sectionOf(name: string, section: TSchema, written: Map<string, string>): string {
  const initial = isRequired(schema, name) ? 'Required' : `Default: \`${yaml(section['default'])}\``
  const type = isGroup(section) ? [] : [`Type: ${typeOf(section, name)}. ${initial}.`, '']
  const rows = rowsBelow(name, '', section, written)
  const table = rows.length === 0 ? [] : ['| Setting | Type | Default | Meaning |', '|---|---|---|---|', ...rows, '']
  const dialects = name === 'providers' ? [...dialectTable(), ''] : []
  const example = ['```yaml', EXAMPLES[name] ?? '', '```']
  return [`## ${name}`, '', wrapped(sentence(section)), '', ...type, ...table, ...dialects, ...example, ''].join('\n')
}

/**
 * The rows of the settings inside a group, a list of groups or a union with a group. A shape that was written before is
 * only referred to; `written` has the path of each.
 */
function rowsBelow(section: string, path: string, outer: TSchema, written: Map<string, string>): readonly string[] {
  const groups = groupsIn(outer)
  return groups.flatMap(({ group, suffix }) => {
    // A setting of one of several alternatives is not required.
    const needs = (name: string) => groups.length === 1 && isRequired(group, name)
    const inside = path === '' ? '' : `${path}${suffix}.`
    return Object.entries(propertiesOf(group)).flatMap(([name, inner]) => {
      const at = `${inside}${name}`
      const shape = groupsIn(inner).length === 0 ? '' : shapeOf(inner)
      const first = shape === '' ? undefined : written.get(shape)
      if (first !== undefined) return [row(at, inner, needs(name), ` Its settings are those of ${first}.`)]
      if (shape !== '') written.set(shape, `\`${section}.${at}\``)
      return [row(at, inner, needs(name)), ...rowsBelow(section, at, inner, written)]
    })
  })
}

interface Inner {
  readonly group: TSchema
  /** What follows the path of the outer schema: `[]` for a list. */
  readonly suffix: string
}

function groupsIn(outer: TSchema): readonly Inner[] {
  if (isGroup(outer)) return [{ group: outer, suffix: '' }]
  if (outer['type'] === 'array') return groupsIn(asSchema(outer['items'])).map(({ group }) => ({ group, suffix: '[]' }))
  if (isArray(outer['anyOf'])) return outer['anyOf'].flatMap((variant) => groupsIn(asSchema(variant)))
  const byName: unknown = outer['patternProperties']
  return isObject(byName) ? Object.values(byName).flatMap((inner) => groupsIn(asSchema(inner))) : []
}

/** A group by its settings alone, whatever its description and default. */
function shapeOf(outer: TSchema): string {
  return JSON.stringify(groupsIn(outer).map(({ group }) => propertiesOf(group)))
}

function row(path: string, of: TSchema, required: boolean, more = ''): string {
  const meaning = `${sentence(of)}${more}`
  const initial = of['default'] === undefined || isGroup(of) ? '' : `\`${yaml(of['default'])}\``
  const cells = [`\`${path}\``, typeOf(of, path), required ? 'required' : initial, meaning]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

function typeOf(of: TSchema, path: string): string {
  if (isArray(of['anyOf'])) {
    const variants = of['anyOf'].map((variant) => typeOf(asSchema(variant), path))
    return [...new Set(variants)].join(variants.length > 2 ? ', ' : ' or ')
  }
  if (of['const'] !== undefined) return `\`${String(of['const'])}\``
  if (of['type'] === 'array') return `list of ${plural(typeOf(asSchema(of['items']), path))}`
  if (isGroup(of)) return 'group'
  if (of['type'] === 'object') return groupsIn(of).length > 0 ? 'groups by name' : 'strings by name'
  if (of['type'] === 'boolean') return '`true` or `false`'
  if (of['type'] === 'string') return 'string'
  return [unitOf(path) ?? String(of['type']), rangeOf(of)].filter(Boolean).join(', ')
}

function plural(type: string): string {
  return type === 'string' || type === 'group' ? `${type}s` : type
}

function unitOf(path: string): string | undefined {
  const units = { ms: 'milliseconds', seconds: 'seconds', days: 'days', bytes: 'bytes' }
  return Object.entries(units).find(([suffix]) => path.endsWith(`_${suffix}`))?.[1]
}

/** Bounds that a reader may meet; those that only guard arithmetic are left out. */
function rangeOf(of: TSchema): string {
  const figure = (value: number) => value.toLocaleString('en-US')
  const above = of['exclusiveMinimum']
  const from = above === undefined ? figure(Number(of['minimum'])) : `above ${figure(Number(above))}`
  const maximum = Number(of['maximum'])
  if (!(maximum < 1_000_000_000)) return above === undefined ? `at least ${from}` : from
  return above === undefined ? `${from} to ${figure(maximum)}` : `${from}, at most ${figure(maximum)}`
}

function dialectTable(): readonly string[] {
  const list = (words: readonly string[]) => words.map((word) => `\`${word}\``).join(', ')
  const rows = PROVIDER_DIALECTS.map((name) => {
    const { baseUrl, needs, takes, credentials, images } = providerDialects[name]
    const oneOf = credentials?.map((credential) => credential.needs.map((field) => `\`${field}\``).join(' and '))
    const needed = [...(needs.length > 0 ? [list(needs)] : []), ...(oneOf === undefined ? [] : [oneOf.join(' or ')])]
    const other = takes.filter(
      (field) => !needs.includes(field) && !credentials?.some((one) => one.needs.includes(field)),
    )
    const address = baseUrl === undefined ? '' : `\`${baseUrl}\``
    return `| \`${name}\` | ${address} | ${needed.join(', and ')} | ${list(other)} | ${images ? 'yes' : 'no'} |`
  })
  const head = '| Dialect | Default `base_url` | Required | Other settings of its own | Generates images |'
  return [head, '|---|---|---|---|---|', ...rows]
}

function sentence(of: TSchema): string {
  const text = of.description ?? ''
  return text === '' || text.endsWith('.') ? text : `${text}.`
}

function isGroup(of: TSchema): boolean {
  return isObject(of['properties'])
}

function propertiesOf(group: TSchema): Readonly<Record<string, TSchema>> {
  const properties: unknown = group['properties']
  return isObject(properties)
    ? Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, asSchema(inner)]))
    : {}
}

function isRequired(group: TSchema, name: string): boolean {
  const required: unknown = group['required']
  return isArray(required) && required.includes(name)
}

/** TypeBox's schemas are plain objects; this narrows one that was reached through a JSON path. */
function asSchema(value: unknown): TSchema {
  if (!isObject(value)) throw new Error('not a schema')
  return value as unknown as TSchema
}

/** Lines of at most 120 characters. */
function wrapped(text: string): string {
  return text.replaceAll(/(.{1,120})(?: |$)/g, '$1\n').trimEnd()
}

/** A default as it would be written in the file. */
function yaml(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
