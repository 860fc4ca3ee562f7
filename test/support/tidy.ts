/**
 * The rules of the repository, as functions from files to complaints. The import table at the top is also in
 * docs/architecture.md.
 */

import { dirname, posix } from 'node:path'
import type { Source } from './source.ts'

interface Allowance {
  /** Folders of `src/` (`core/`) or files (`dialects/dialect.ts`), in addition to the file's own folder. */
  readonly from: readonly string[]
  /**
   * npm packages, `node:` and `bun` modules; a trailing `/` allows a scope. The key is the part of the folder that they
   * are allowed in.
   */
  readonly packages: Readonly<Record<string, readonly string[]>>
}

const ANYWHERE = '**'
const EVERYTHING = ['*']
/** The composition root may import everything but its callers: `admin/`, `process/`, `cli/` and `main.ts`. */
const BELOW_ASSEMBLY = [
  ...[
    'core/',
    'wire/',
    'sqlite/',
    'redis/',
    'catalog/',
    'capacity/',
    'config/',
    'keys/',
    'items/',
    'ledger/',
    'logging/',
  ],
  ...['dialects/', 'transport/', 'providers/', 'gateway/', 'metrics/', 'tracing/', 'alerts/', 'http/', 'reference/'],
]

/** The first match applies; a path with a trailing `/` is a folder. */
export const IMPORTS: Readonly<Record<string, Allowance>> = {
  'core/': {
    from: [],
    packages: { 'core/caller-address.ts': ['node:net'], 'core/forward-proxies.ts': ['node:net'] },
  },
  'wire/': {
    from: ['core/'],
    packages: { 'wire/byte-text.ts': ['node:buffer'], 'wire/json-document.ts': ['node:buffer'] },
  },
  'catalog/': { from: ['core/'], packages: { [ANYWHERE]: ['node:crypto'] } },
  'capacity/': { from: ['core/', 'redis/'], packages: {} },
  'sqlite/': { from: ['core/'], packages: { [ANYWHERE]: ['bun:sqlite', 'node:fs', 'node:path'] } },
  'redis/': {
    from: ['core/'],
    packages: {
      [ANYWHERE]: ['ioredis'],
      'redis/stored-script.ts': ['node:crypto'],
      'redis/tls.ts': ['node:net', 'node:tls'],
    },
  },
  'keys/key-changes.ts': { from: ['core/', 'catalog/', 'config/', 'keys/'], packages: {} },
  'keys/budget-changes.ts': { from: ['core/', 'catalog/', 'config/', 'keys/'], packages: {} },
  'keys/organization-changes.ts': { from: ['core/', 'catalog/', 'config/', 'keys/'], packages: {} },
  'keys/': {
    from: ['core/', 'catalog/', 'sqlite/', 'redis/'],
    packages: {
      [ANYWHERE]: ['node:crypto'],
      'keys/sqlite-key-store.ts': ['bun:sqlite', 'node:fs', 'node:path'],
    },
  },
  'ledger/': {
    from: ['core/', 'sqlite/', 'redis/', 'keys/'],
    packages: {
      [ANYWHERE]: ['node:crypto'],
      'ledger/redis/': ['ioredis'],
      'ledger/redis/outbox/outbox.ts': ['bun:sqlite', 'node:path'],
      'ledger/redis/outbox/outbox-entries.ts': ['bun:sqlite'],
      'ledger/redis/outbox/outbox-groups.ts': ['bun:sqlite'],
      'ledger/redis/outbox/epoch-rows.ts': ['bun:sqlite'],
      'ledger/redis/outbox/counter-rows.ts': ['bun:sqlite'],
      'ledger/redis/outbox/log-tail.ts': ['bun:sqlite'],
      'ledger/redis/outbox/row-finder.ts': ['bun:sqlite'],
      'ledger/embedded/socket/': ['bun', 'node:fs', 'node:path'],
      'ledger/embedded/': ['bun:sqlite', 'node:fs', 'node:path'],
      'ledger/request-table.ts': ['bun:sqlite'],
      'ledger/request-writer.ts': ['bun:sqlite'],
    },
  },
  'items/': {
    from: ['core/', 'config/config.ts', 'redis/'],
    packages: { [ANYWHERE]: ['node:crypto'] },
  },
  'dialects/': {
    from: ['core/', 'wire/', 'items/item-store.ts', 'items/sealer.ts'],
    packages: {
      [ANYWHERE]: ['node:crypto'],
      '**/schema.ts': ['@sinclair/typebox'],
      'dialects/body-schema.ts': ['@sinclair/typebox'],
    },
  },
  'transport/': {
    from: ['core/'],
    packages: {
      [ANYWHERE]: ['bun'],
      'transport/addresses.ts': ['node:net'],
      'transport/decompressor.ts': ['node:stream', 'node:zlib'],
      'transport/descriptor-shortage.ts': ['node:fs'],
      'transport/dial.ts': ['node:net', 'node:tls'],
      'transport/proxy-tunnel.ts': ['node:net'],
    },
  },
  'providers/': {
    from: ['core/', 'wire/', 'transport/'],
    packages: {
      [ANYWHERE]: ['node:crypto'],
      'providers/access-tokens.ts': ['@azure/identity', 'google-auth-library'],
      'providers/aws-credentials.ts': ['@aws-sdk/'],
      'providers/aws-signature.ts': ['@smithy/'],
      'providers/event-stream.ts': ['@smithy/'],
    },
  },
  'gateway/': {
    from: [
      'core/',
      'wire/',
      'catalog/',
      'capacity/',
      'ledger/',
      'dialects/dialect.ts',
      'providers/provider.ts',
      'providers/upstream.ts',
      'providers/taken-request.ts',
      'providers/body-readers.ts',
      'providers/scrub.ts',
    ],
    packages: { [ANYWHERE]: ['node:crypto'] },
  },
  'tracing/': {
    from: ['core/', 'catalog/', 'gateway/', 'providers/short-post.ts', 'providers/retry-after.ts'],
    packages: { 'tracing/otlp.ts': ['@opentelemetry/'], 'tracing/spans.ts': ['@opentelemetry/'] },
  },
  'alerts/': {
    from: ['core/', 'sqlite/', 'logging/', 'providers/short-post.ts'],
    packages: { [ANYWHERE]: ['node:crypto'], 'alerts/alert-queue.ts': ['bun:sqlite', 'node:path'] },
  },
  'metrics/': {
    from: ['core/', 'catalog/', 'ledger/ledger.ts', 'gateway/access-log.ts', 'gateway/request-line.ts'],
    packages: {},
  },
  'http/': {
    from: ['core/', 'wire/', 'catalog/', 'keys/key-ring.ts', 'dialects/', 'gateway/'],
    packages: { [ANYWHERE]: ['elysia', '@elysia/', '@elysiajs/', 'bun', 'node:crypto'] },
  },
  'admin/': {
    from: [
      ...['core/', 'wire/', 'catalog/', 'keys/', 'dialects/', 'gateway/', 'ledger/', 'metrics/', 'logging/'],
      'sqlite/private-files.ts',
      ...[
        'config/config.ts',
        'config/problems.ts',
        'assembly/open-ledger.ts',
        'assembly/targets.ts',
        'providers/form-store.ts',
        'alerts/alerts.ts',
      ],
      'reports/',
      'console/page.html',
      'reference/',
    ],
    packages: {
      [ANYWHERE]: ['elysia', '@elysia/', '@elysiajs/', 'bun', 'node:crypto'],
      'admin/api-schemas.ts': ['@sinclair/typebox'],
      'admin/api-shapes.ts': ['@sinclair/typebox'],
      'admin/node-reports.ts': ['@sinclair/typebox'],
      'admin/console-files.ts': ['node:path'],
      'admin/history-file.ts': ['node:fs', 'node:path'],
    },
  },
  // Runs in the browser; of the program it knows the shapes of the JSON that it reads.
  'console/': { from: ['admin/api-shapes.ts', 'core/figure-text.ts'], packages: { [ANYWHERE]: ['uplot'] } },
  'config/': {
    from: ['core/'],
    packages: {
      [ANYWHERE]: ['@sinclair/typebox', 'node:fs', 'node:os', 'node:path', 'node:crypto'],
      'config/check-process.ts': ['node:net', 'node:tls'],
      'config/document.ts': ['yaml'],
    },
  },
  'import/': {
    from: ['core/', 'config/'],
    packages: {
      'import/litellm.ts': ['yaml'],
      'import/litellm-keys.ts': ['node:crypto'],
      'import/price-edits.ts': ['yaml'],
      'import/price-list.ts': ['yaml'],
    },
  },
  'reference/': { from: ['core/'], packages: {} },
  'logging/': { from: ['core/'], packages: { [ANYWHERE]: ['node:fs', 'node:os', 'node:tty', 'pino'] } },
  'assembly/': { from: BELOW_ASSEMBLY, packages: { [ANYWHERE]: ['node:'] } },
  'reports/': {
    from: [...BELOW_ASSEMBLY, 'assembly/'],
    packages: { 'reports/explanation-shape.ts': ['@sinclair/typebox'] },
  },
  'cli/': { from: EVERYTHING, packages: { [ANYWHERE]: ['node:', 'bun', 'pino'] } },
  'process/': {
    from: EVERYTHING,
    packages: { [ANYWHERE]: ['node:', 'bun', 'pino'], 'process/system/libc.ts': ['bun:ffi'] },
  },
  'main.ts': { from: EVERYTHING, packages: { [ANYWHERE]: ['node:', 'bun'] } },
}

/**
 * Folders with walls of their own: which of its subfolders a subfolder may import, beside itself. The files in the
 * folder itself are on top: they may import all subfolders, and none of these imports them.
 */
export const SUBFOLDERS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'ledger/redis/': {
    lua: [],
    protocol: [],
    store: ['lua', 'protocol'],
    readers: ['store'],
    maintenance: ['store'],
    outbox: ['protocol'],
    recovery: ['protocol'],
    delivery: ['protocol', 'store', 'recovery'],
    reserving: ['protocol', 'delivery'],
  },
  'process/': {
    system: [],
    ipc: ['system'],
    'service-manager': ['system'],
    control: ['system'],
    children: ['system', 'ipc', 'service-manager'],
    watchers: ['ipc'],
    fleet: [],
    serving: ['system', 'ipc'],
  },
}

/** Folders whose subfolders are adapters of one interface: siblings do not import each other. */
const ADAPTERS = ['dialects/', 'providers/', 'ledger/']

/** Uses of the runtime that are allowed in a few places, and the alternative for all others. */
const USES = {
  environment: {
    where: ['config/load.ts'],
    instead: 'the environment is read in config/load.ts; take the value from the configuration',
  },
  fetch: {
    where: ['console/api-client.ts'],
    instead: 'call providers/upstream.ts, which holds the deadlines and the abort',
  },
  response: { where: ['http/', 'admin/'], instead: 'return data or throw a CallerError; http/ makes the Response' },
  'import of what is not a literal': { where: [], instead: 'name the module in the import, so that it can be checked' },
} as const satisfies Record<string, { readonly where: readonly string[]; readonly instead: string }>

export const FUNCTION_LINES_MAX = 70
/** A shorter file needs several importers. */
const SHORT_LINES = 40
/** If the two are longer together, the short one stays apart. */
const JOINED_LINES_MAX = 420

/** Names that do not state a duty. */
const VAGUE_NAME = /^(?:utils?|helpers?|common|managers?|services?|misc|shared|lib)$/

/** Complaints about imports that the table does not allow. `sources` are all files below `src/`. */
export function forbiddenImports(sources: readonly Source[]): string[] {
  return sources.flatMap((source) => {
    const file = insideSrc(source.path)
    const folder = Object.keys(IMPORTS).find((key) => covers(key, file))
    const allowed = folder === undefined ? undefined : IMPORTS[folder]
    if (folder === undefined || allowed === undefined)
      return [`${source.path}: no row of the import table covers it; the folders are ${Object.keys(IMPORTS).join(' ')}`]
    return source.imports.flatMap(({ line, what }) => {
      const complaint = what.startsWith('.') ? relative(file, folder, allowed, what) : packaged(file, allowed, what)
      return complaint === undefined ? [] : [`${source.path}:${line}: imports ${what}; ${complaint}`]
    })
  })
}

function relative(file: string, folder: string, allowed: Allowance, specifier: string): string | undefined {
  const target = posix.join(posix.dirname(file), specifier)
  if (target === '../package.json' && file === 'assembly/version.ts') return undefined
  if (/^\.\.\/docs\/openapi(?:-admin)?\.json$/.test(target) && covers('reference/', file)) return undefined
  if (target.startsWith('..'))
    return 'src/ imports nothing outside; assembly/version.ts reads package.json, and reference/ the documents in docs'
  const adapters = ADAPTERS.find((parent) => covers(parent, file) && covers(parent, target))
  if (adapters !== undefined && !mayMeet(adapters, file, target))
    return `adapters do not know each other; what two of ${adapters} share stands in ${adapters} itself`
  const walls = Object.keys(SUBFOLDERS).find((parent) => covers(parent, file) && covers(parent, target))
  if (walls !== undefined) {
    const mine = subfolderOf(walls, file)
    const other = subfolderOf(walls, target)
    const below = SUBFOLDERS[walls]?.[mine] ?? []
    if (mine !== '' && other !== mine && !below.includes(other))
      return `${walls}${mine} may import of ${walls}: ${below.join(' ') || 'nothing'}`
  }
  if (covers(folder, target) && folder.endsWith('/')) return undefined
  if (allowed.from === EVERYTHING || allowed.from.some((key) => covers(key, target))) return undefined
  return allowed.from.length === 0 ? `${folder} imports nothing` : `${folder} may import ${allowed.from.join(' ')}`
}

/** An adapter may import itself and its parent folder; the parent folder imports no adapter. */
function mayMeet(parent: string, file: string, target: string): boolean {
  const mine = subfolderOf(parent, file)
  const other = subfolderOf(parent, target)
  return other === '' || other === mine
}

function subfolderOf(parent: string, file: string): string {
  const rest = file.slice(parent.length)
  return rest.includes('/') ? rest.slice(0, rest.indexOf('/')) : ''
}

function packaged(file: string, allowed: Allowance, specifier: string): string | undefined {
  const here = Object.entries(allowed.packages)
    .filter(([where]) => covers(where, file))
    .flatMap(([, packages]) => packages)
  if (here.some((name) => isPackage(name, specifier))) return undefined
  return here.length === 0 ? 'no package is allowed there' : `allowed there: ${here.join(' ')}`
}

function isPackage(name: string, specifier: string): boolean {
  if (name.endsWith('/') || name.endsWith(':')) return specifier.startsWith(name)
  return specifier === name || specifier.startsWith(`${name}/`)
}

/** Complaints about uses of the runtime outside of the files that own them. */
export function forbiddenUses(sources: readonly Source[]): string[] {
  return sources.flatMap((source) =>
    source.uses.flatMap(({ line, what }) => {
      const { where, instead } = USES[what]
      const allowed: readonly string[] = where
      if (allowed.some((key) => covers(key, insideSrc(source.path)))) return []
      return [`${source.path}:${line}: ${what === 'response' ? 'new Response' : what}; ${instead}`]
    }),
  )
}

export function longFunctions(sources: readonly Source[]): string[] {
  return sources.flatMap((source) =>
    source.functions
      .filter(({ what }) => what.lines > FUNCTION_LINES_MAX)
      .map(
        ({ line, what }) =>
          `${source.path}:${line}: ${what.name} has ${what.lines} lines, over ${FUNCTION_LINES_MAX}; extract a step`,
      ),
  )
}

export function withoutOpening(sources: readonly Source[]): string[] {
  return sources
    .filter((source) => !source.opensWithComment)
    .map((source) => `${source.path}: opens without a comment; say what the file owns, and what it must never do`)
}

/** Import cycles, each once, as the files on its path. */
export function importCycles(sources: readonly Source[]): string[] {
  const graph = importGraph(sources)
  const done = new Set<string>()
  const found: string[] = []
  const visit = (file: string, way: readonly string[]): void => {
    const at = way.indexOf(file)
    if (at !== -1) {
      found.push(`${[...way.slice(at), file].join(' → ')}: an import cycle; move what both need into a third file`)
      return
    }
    if (done.has(file)) return
    for (const next of graph.get(file) ?? []) visit(next, [...way, file])
    done.add(file)
  }
  for (const source of sources) visit(source.path, [])
  return found
}

/** Files of `src/` that nothing reaches from the roots. `files` are all files there, SQL and Lua too. */
export function deadFiles(sources: readonly Source[], files: readonly string[], roots: readonly string[]): string[] {
  const graph = importGraph(sources)
  const reached = new Set<string>()
  const todo = [...roots]
  for (let file = todo.pop(); file !== undefined; file = todo.pop()) {
    if (reached.has(file)) continue
    reached.add(file)
    todo.push(...(graph.get(file) ?? []))
  }
  return (
    files
      // Only the compiler reads a declaration file.
      .filter((file) => /^src\/.*(?<!\.d)\.(?:ts|lua|sql)$/.test(file) && !reached.has(file))
      .map((file) => `${file}: nothing reaches it from ${roots[0] ?? 'a root'} or a script; remove it or use it`)
  )
}

/** Exports of `src/` that no other file imports. `sources` are all files, those that test and measure `src/` too. */
export function unusedExports(sources: readonly Source[]): string[] {
  const used = new Set(
    sources.flatMap(({ path, importedNames }) =>
      importedNames
        .filter(({ from }) => from.startsWith('.'))
        .map(({ from, name }) => `${posix.join(dirname(path), from)}#${name}`),
    ),
  )
  return sources
    .filter(({ path }) => path.startsWith('src/'))
    .flatMap(({ path, exports }) =>
      exports
        .filter(({ what }) => !used.has(`${path}#${what}`) && !used.has(`${path}#*`))
        .map(({ line, what }) => `${path}:${line}: nothing imports ${what}; remove its export, or the thing itself`),
    )
}

/**
 * Files of `src/` that are too short: the only file that imports them is beside them, and is read with them. Not those
 * that the table of imports names, because they may import what their importer may not, and not the fast path that
 * documents name.
 */
export function smallFiles(sources: readonly Source[]): string[] {
  const graph = importGraph(sources.filter(({ path }) => path.startsWith('src/')))
  const named = Object.values(IMPORTS).flatMap(({ packages }) =>
    Object.keys(packages).filter((key) => key !== ANYWHERE),
  )
  const texts = new Map(sources.map(({ path, text }) => [path, text]))
  const linesOf = (path: string) => (texts.get(path) ?? '').split('\n').length - 1
  return sources.flatMap(({ path }) => {
    const lines = linesOf(path)
    const file = insideSrc(path)
    if (!path.startsWith('src/') || lines >= SHORT_LINES || file === 'gateway/plain-answer.ts') return []
    if (named.some((key) => covers(key, file))) return []
    const importers = [...graph].flatMap(([importer, imported]) => (imported.includes(path) ? [importer] : []))
    const [only = ''] = importers
    if (importers.length !== 1 || dirname(only) !== dirname(path)) return []
    if (lines + linesOf(only) > JOINED_LINES_MAX) return []
    return [`${path}: has ${lines} lines, and only ${only} imports it; join the two`]
  })
}

function importGraph(sources: readonly Source[]): Map<string, string[]> {
  return new Map(
    sources.map((source) => [
      source.path,
      source.imports
        .filter(({ what }) => what.startsWith('.'))
        .map(({ what }) => posix.join(dirname(source.path), what)),
    ]),
  )
}

/** Names of files and folders: kebab-case nouns that say what is inside. */
export function vagueNames(files: readonly string[]): string[] {
  return files.flatMap((file) => {
    const parts = file.split('/').map((part) => part.replace(/\..*$/, ''))
    if (parts.some((part) => VAGUE_NAME.test(part))) return [`${file}: name it after what it owns`]
    const wrong = /\.(?:ts|lua|sql)$/.test(file) && parts.some((part) => !/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(part))
    return wrong ? [`${file}: file names are kebab-case nouns`] : []
  })
}

/** Words that are not about the product, or postpone work. */
const FORBIDDEN_WORDS: readonly { readonly pattern: RegExp; readonly instead: string }[] = [
  { pattern: /(?<![\w.:-])\/(?:work|home|Users|root)\/[\w.]/g, instead: 'no paths of somebody’s machine' },
  { pattern: /\bissues?\s+#?\d+/gi, instead: 'say the reason itself; numbers of a tracker are not in the repository' },
  { pattern: /\b(?:TO(?:DO)|FIX(?:ME))\b/g, instead: 'do it now, or leave it out' },
  {
    pattern: /\bhttps?:\/\/[\w.-]*(?:registry|proxy|mirror)[\w.-]*(?::\d+)?\/(?!npmjs)/gi,
    instead: 'no address of a package registry',
  },
]

export function forbiddenWords(path: string, text: string): string[] {
  return FORBIDDEN_WORDS.flatMap(({ pattern, instead }) =>
    [...text.matchAll(pattern)].map((match) => {
      const line = text.slice(0, match.index).split('\n').length
      return `${path}:${line}: “${match[0]}”; ${instead}`
    }),
  )
}

/** Packages of package.json that the page about dependencies does not name. */
export function unexplainedPackages(packages: readonly string[], page: string): string[] {
  return packages
    .filter((name) => !page.includes(`\`${name}\``))
    .map((name) => `package.json: ${name} is not named in docs/dependencies.md; give its reason there, or remove it`)
}

function insideSrc(path: string): string {
  return path.startsWith('src/') ? path.slice('src/'.length) : path
}

/** Whether the key (a folder with `/`, a file, `**`, or `**` and a file name) matches the file. */
function covers(key: string, file: string): boolean {
  if (key === ANYWHERE || key === file) return true
  if (key.startsWith('**/')) return file.endsWith(key.slice(2))
  return key.endsWith('/') && file.startsWith(key)
}
