/**
 * Mutation tests: each seeded bug, in Lua and in TypeScript, must make a test of the ledger's suite fail. Two run at a
 * time, each on a copy of the sources. `test/ledger/mutants.json` has the test that detects each mutant: that one alone
 * runs. A mutant without one, or whose test passes, gets the whole suite of its subject. One mutant of each six runs,
 * and always those that the file lacks; all of them with `WEIR_WHOLE=1` or `WEIR_MUTANTS=new`, which keeps what it
 * finds in the file. `WEIR_MUTANTS=all` looks for each mutant again.
 */

import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import {
  awayMutants,
  foldMutants,
  journalMutants,
  luaMutants,
  type Mutant,
  memoryMutants,
  nodeMutants,
  restoreMutants,
  sumMutants,
} from '../ledger/mutants.ts'
import { partOf } from '../support/part.ts'

const ROOT = resolve(import.meta.dir, '../..')
const GUARD = join(ROOT, 'scripts/guard.ts')
const LAW = ['test/laws/ledger.test.ts']
const STATES = 'test/ledger/states.test.ts'
const COUNTERS = 'test/ledger/counters.test.ts'
const CROSSINGS = 'test/laws/spend-crossings.test.ts'
const SIMULATION = ['test/laws/ledger-simulation.test.ts']
const EMPTIED = ['test/ledger/redis-data-loss.test.ts', 'test/ledger/rolled-back.test.ts']
const FOLDED = ['test/ledger/folded-nodes.test.ts']
const ABSENT = ['test/ledger/absent-nodes.test.ts']
const AWAY = ['test/ledger/away-node.test.ts']
const JOURNAL = ['test/ledger/journal.test.ts', 'test/laws/journal.test.ts']
const SIMULATED_REQUESTS = '20000'
const HISTORIES = '150'
/** These reveal most mutants, in 0.3 s; all of them take 6 s with Redis. */
const FIRST_HISTORIES = '15'
const JOURNAL_HISTORIES = '20'
/** After this time a mutant that is to hang does. */
const HANG_MS = 20_000
/** Ends a run on a busy machine; it proves nothing. */
const RUN_MS = 600_000
const LONGEST_MS = 1_800_000
const DETECTORS = join(ROOT, 'test/ledger/mutants.json')
const SEARCH = process.env['WEIR_MUTANTS']
/** A search for all takes the quickest of the tests that fail, and none that runs as long as this. */
const SEARCHED_MS = 200_000

type Subject = 'memory' | 'redis' | 'nodes' | 'emptied' | 'away' | 'folded' | 'absent' | 'journal'

const listed: Readonly<Record<Subject, readonly Mutant[]>> = {
  memory: memoryMutants,
  journal: journalMutants,
  nodes: nodeMutants,
  emptied: restoreMutants,
  away: awayMutants,
  folded: foldMutants,
  absent: sumMutants,
  redis: luaMutants,
}

const copies = [copy(), copy()]
afterAll(() => {
  for (const directory of copies) rmSync(directory, { recursive: true, force: true })
})

function copy(): string {
  const directory = mkdtempSync(join(tmpdir(), 'weir-mutant-'))
  for (const part of [
    'src',
    'test/ledger',
    'test/support',
    'test/fixtures/ledger',
    'test/laws/ledger.test.ts',
    'test/laws/journal.test.ts',
    CROSSINGS,
    ...SIMULATION,
    'package.json',
    'tsconfig.json',
  ]) {
    cpSync(join(ROOT, part), join(directory, part), { recursive: true })
  }
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  mkdirSync(join(directory, 'tmp'))
  return directory
}

/** A part of a suite: files of tests, a pattern of the tests' names, and the number of random histories of the law. */
interface Part {
  readonly files: readonly string[]
  readonly pattern?: string
  readonly histories: string
  /** The number of histories of the journal's law, if not the usual one. */
  readonly journals?: string
}

/** The test that detects a mutant. */
interface Detector {
  readonly file: string
  readonly test: string
  readonly histories: string
}

const detectors: Record<string, Record<string, Detector>> = JSON.parse(readFileSync(DETECTORS, 'utf8'))

/** The parts of the suite of a subject, the quick ones first. */
function suiteOf(subject: Subject): readonly Part[] {
  const part = (files: readonly string[], pattern?: string): Part => ({
    ...{ files, histories: HISTORIES },
    ...(pattern === undefined ? {} : { pattern }),
  })
  if (subject === 'nodes') return [part(SIMULATION)]
  if (subject === 'away') return [part(AWAY, '960.0 hours')]
  if (subject === 'folded') return [part(FOLDED)]
  if (subject === 'absent') {
    const first = '^(200 nodes|back after 40 days, with nothing)'
    return [part(ABSENT, first), part(ABSENT, '(after 40 days serves nothing|data since|half a day|its reservations)')]
  }
  if (subject === 'journal') return [part(JOURNAL)]
  // The suite of two gateways is left out: it waits for leases, and does not test how an emptied Redis is restored.
  if (subject === 'emptied') return [part(EMPTIED, '^(?!two gateways on copies)')]
  const store = (...files: readonly string[]) => part(files, `the store in ${subject}`)
  // The states take a tenth of the time of the shares that the law of crossings draws.
  return [
    { ...store(...LAW), histories: FIRST_HISTORIES },
    ...[store(STATES), store(COUNTERS), store(CROSSINGS), store(...LAW)],
  ]
}

function detectorPart({ file, test, histories }: Detector): Part {
  // Bun prints `group > test`, and matches `group test`.
  const words = test.split(' > ').map((word) => word.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&'))
  return { files: [file], pattern: `^${words.join(' ')}$`, histories }
}

interface Ending {
  /** Whether it was killed. */
  readonly isLate: boolean
  readonly code: number
  /** From the quickest test on. */
  readonly failed: readonly Detector[]
}

/** How a part of a suite ends in a copy; it is killed after `ms`. */
async function run(
  directory: string,
  { files, pattern, histories, journals = JOURNAL_HISTORIES }: Part,
  ms: number,
): Promise<Ending> {
  const named = pattern === undefined ? [] : ['-t', pattern]
  const until = SEARCH === 'all' ? ['--timeout', String(SEARCHED_MS)] : ['--bail', '--timeout', String(2 * ms)]
  const suite = Bun.spawn([process.execPath, GUARD, process.execPath, 'test', ...until, ...named, ...files], {
    cwd: directory,
    env: {
      ...process.env,
      // A suite that is killed does not delete its directories; they are deleted with the copy.
      TMPDIR: join(directory, 'tmp'),
      WEIR_LAW_HISTORIES: histories,
      WEIR_JOURNAL_HISTORIES: journals,
      WEIR_SIMULATED_REQUESTS: SIMULATED_REQUESTS,
      WEIR_SEED: '1',
    },
    stdout: 'ignore',
    stderr: 'pipe',
  })
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    // The guard also ends a Redis whose script does not end.
    suite.kill('SIGTERM')
  }, ms)
  const [text, code] = await Promise.all([suite.stderr.text(), suite.exited])
  clearTimeout(timer)
  return { isLate, code, failed: failedOf(text, histories) }
}

/** The tests that failed, but for those that ran out of time, by what Bun prints: files, and below each its tests. */
function failedOf(text: string, histories: string): readonly Detector[] {
  const failed: (Detector & { readonly ms: number })[] = []
  let file = ''
  for (const [at, line] of text.split('\n').entries()) {
    file = /^(test\/\S+\.test\.ts):$/.exec(line)?.[1] ?? file
    const [, test, ms] = /^\(fail\) (.*?)(?: \[([\d.]+)ms\])?$/.exec(line) ?? []
    const isOutOfTime = text.split('\n')[at + 1]?.includes('this test timed out')
    if (test !== undefined && !isOutOfTime) failed.push({ file, test, histories, ms: Number(ms ?? 0) })
  }
  return failed.sort((one, other) => one.ms - other.ms).map(({ ms: _, ...detector }) => detector)
}

/** Whether the tests of all parts pass in a copy. */
async function passes(directory: string, parts: readonly Part[]): Promise<boolean> {
  for (const part of parts) if ((await run(directory, part, RUN_MS)).code !== 0) return false
  return true
}

/** What keeps a mutant, which is in the copy, from being detected; undefined if it is. */
async function problemOf(directory: string, subject: Subject, mutant: Mutant): Promise<string | undefined> {
  const name = nameOf(mutant)
  const hangs = mutant[3] === 'hangs'
  const known = SEARCH === 'all' ? undefined : detectors[subject]?.[name]
  for (const part of [...(known === undefined ? [] : [detectorPart(known)]), ...suiteOf(subject)]) {
    const { isLate, code, failed } = await run(directory, part, hangs ? HANG_MS : RUN_MS)
    const [found] = failed
    if (found !== undefined && known === undefined) note(subject, name, found)
    if (found !== undefined || (isLate && hangs)) return undefined
    if (isLate) return `${name}: ran for too long, which shows no fault`
    if (code !== 0) return `${name}: the tests ran for too long, or did not start`
  }
  return `${name}: all tests pass`
}

function note(subject: Subject, name: string, detector: Detector): void {
  const found = detectors[subject] ?? {}
  detectors[subject] = { ...found, [name]: detector }
  if (SEARCH === undefined) console.log(`Detected by ${detector.test}; WEIR_MUTANTS=new keeps that: ${name}`)
}

/** Writes a line for each mutant, and none for those that are gone. */
function writeDetectors(): void {
  const subjects = Object.entries(listed).map(([subject, mutants]) => {
    const lines = mutants.flatMap((mutant) => {
      const detector = detectors[subject]?.[nameOf(mutant)]
      return detector === undefined ? [] : [`    ${JSON.stringify(nameOf(mutant))}: ${JSON.stringify(detector)}`]
    })
    return `  ${JSON.stringify(subject)}: {${['', ...lines].join(',\n').slice(1)}\n  }`
  })
  writeFileSync(DETECTORS, `{\n${subjects.join(',\n')}\n}\n`)
}

function nameOf([file, from, to]: Mutant): string {
  return `${file}: '${from}' → '${to}'`
}

/** The mutants that this run tests. */
function chosen(subject: Subject): readonly Mutant[] {
  const known = detectors[subject] ?? {}
  const all = listed[subject]
  const part = SEARCH === undefined ? partOf(all, 6) : all
  return all.filter((mutant) => part.includes(mutant) || known[nameOf(mutant)] === undefined)
}

/** Returns the mutants that are not detected. */
async function survivors(subject: Subject): Promise<string[]> {
  const left = [...chosen(subject)]
  const alive: string[] = []
  const work = async (directory: string) => {
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const [file, from, to] = mutant
      const path = join(directory, 'src/ledger', file)
      const text = readFileSync(path, 'utf8')
      writeFileSync(
        path,
        text.replace(from, () => to),
      )
      const problem = await problemOf(directory, subject, mutant)
      if (problem !== undefined) alive.push(problem)
      writeFileSync(path, text)
    }
  }
  await Promise.all(copies.map(work))
  if (SEARCH !== undefined) writeDetectors()
  return alive
}

const NAMES: readonly (readonly [Subject, string])[] = [
  ['memory', 'the in-memory store'],
  ['journal', "the embedded ledger's journal"],
  ['nodes', "a node's calls to its store"],
  ['emptied', 'restoring an emptied Redis'],
  ['away', 'a node that was away for long'],
  ['folded', "folding a node's old usage"],
  ['absent', "summing up a node's usage"],
  ['redis', 'the scripts'],
]

describe('mutants', () => {
  test('each is in the source exactly once', () => {
    const lost = Object.values(listed)
      .flat()
      .filter(([file, from]) => readFileSync(join(ROOT, 'src/ledger', file), 'utf8').split(from).length !== 2)
    expect(lost.map(nameOf)).toEqual([])
  })

  for (const [subject, name] of NAMES) {
    test(
      `${chosen(subject).length} of ${listed[subject].length} of ${name} are detected`,
      async () => {
        expect(await survivors(subject)).toEqual([])
      },
      LONGEST_MS,
    )
  }

  // The last one, because a search may have found more of them. Otherwise the suite itself runs all of them, and one of
  // each file shows that a copy has what they need.
  test(
    'the tests that detect them pass in the unchanged copy',
    async () => {
      const all = Object.values(detectors).flatMap((found) => Object.values(found))
      const keyOf = SEARCH === undefined ? ({ file }: Detector) => file : JSON.stringify
      all.sort((one, other) => Number(other.histories) - Number(one.histories))
      const left = [...new Map(all.map((detector) => [keyOf(detector), detector])).values()]
      const failed: Detector[] = []
      const work = async (directory: string) => {
        for (let detector = left.shift(); detector !== undefined; detector = left.shift())
          if (!(await passes(directory, [{ ...detectorPart(detector), journals: '1' }]))) failed.push(detector)
      }
      await Promise.all(copies.map(work))
      expect(failed).toEqual([])
    },
    LONGEST_MS,
  )
})
