/**
 * Mutation tests: each seeded bug, in Lua and in TypeScript, must make the ledger's suite fail. Two run at a time, each
 * on a copy of the sources.
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

const ROOT = resolve(import.meta.dir, '../..')
const GUARD = join(ROOT, 'scripts/guard.ts')
const LAW = ['test/laws/ledger.test.ts']
const STATES = 'test/ledger/states.test.ts'
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
const RUN_MS = 20_000
const COPY_MS = 240_000

type Subject = 'memory' | 'redis' | 'nodes' | 'emptied' | 'away' | 'folded' | 'absent' | 'journal'

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

/** A part of a suite: the arguments of `bun test`, and the number of random histories of the law. */
interface Part {
  readonly words: readonly string[]
  readonly histories: string
}

/** The parts of the suite of a subject, the quick ones first. */
function suiteOf(subject: Subject): readonly Part[] {
  const part = (...words: readonly string[]): Part => ({ words, histories: HISTORIES })
  if (subject === 'nodes') return [part(...SIMULATION)]
  if (subject === 'away') return [part('-t', '960.0 hours', ...AWAY)]
  if (subject === 'folded') return [part(...FOLDED)]
  if (subject === 'absent') {
    const first = '^(200 nodes|back after 40 days, with nothing)'
    return [
      part('-t', first, ...ABSENT),
      part('-t', '(after 40 days serves nothing|data since|half a day|its reservations)', ...ABSENT),
    ]
  }
  if (subject === 'journal') return [part(...JOURNAL)]
  // The suite of two gateways is left out: it waits for leases, and does not test how an emptied Redis is restored.
  if (subject === 'emptied') return [part('-t', '^(?!two gateways on copies)', ...EMPTIED)]
  const store = (...files: readonly string[]) => part('-t', `the store in ${subject}`, ...files)
  // The states take a tenth of the time of the shares that the law of crossings draws.
  return [{ ...store(...LAW), histories: FIRST_HISTORIES }, store(STATES), store(CROSSINGS), store(...LAW)]
}

/** Whether the suite of a subject passes in a copy. */
async function passes(directory: string, subject: Subject, ms = RUN_MS): Promise<boolean> {
  for (const part of suiteOf(subject)) if ((await run(directory, part, ms)) !== 0) return false
  return true
}

/** The exit code of a part of a suite in a copy. */
async function run(directory: string, { words, histories }: Part, ms: number): Promise<number> {
  const tests = [process.execPath, 'test', '--bail', '--timeout', String(ms), ...words]
  const suite = Bun.spawn([process.execPath, GUARD, ...tests], {
    cwd: directory,
    env: {
      ...process.env,
      // A suite that is killed does not delete its directories; they are deleted with the copy.
      TMPDIR: join(directory, 'tmp'),
      WEIR_LAW_HISTORIES: histories,
      WEIR_JOURNAL_HISTORIES: JOURNAL_HISTORIES,
      WEIR_SIMULATED_REQUESTS: SIMULATED_REQUESTS,
      WEIR_SEED: '1',
    },
    stdout: 'ignore',
    stderr: 'ignore',
    // A mutant that never ends counts as detected. The guard also ends a Redis whose script does not end.
    timeout: ms,
    killSignal: 'SIGTERM',
  })
  return suite.exited
}

/** Returns the mutants that the suite did not detect, and those whose text is not in the source exactly once. */
async function survivors(mutants: readonly Mutant[], subject: Subject): Promise<string[]> {
  const left = [...mutants]
  const alive: string[] = []
  const work = async (directory: string) => {
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const [file, from, to] = mutant
      const path = join(directory, 'src/ledger', file)
      const text = readFileSync(path, 'utf8')
      if (text.split(from).length !== 2) {
        alive.push(`${file}: '${from}' does not occur exactly once`)
        continue
      }
      writeFileSync(
        path,
        text.replace(from, () => to),
      )
      if (await passes(directory, subject)) alive.push(`${file}: '${from}' → '${to}'`)
      writeFileSync(path, text)
    }
  }
  await Promise.all(copies.map(work))
  return alive
}

describe('mutants', () => {
  test(
    'the unchanged copy passes',
    async () => {
      const left: Subject[] = ['emptied', 'redis', 'away', 'folded', 'absent', 'journal', 'memory', 'nodes']
      const failed: Subject[] = []
      const work = async (directory: string) => {
        for (let subject = left.shift(); subject !== undefined; subject = left.shift())
          // The limit is generous because the machine may be busy.
          if (!(await passes(directory, subject, COPY_MS))) failed.push(subject)
      }
      await Promise.all(copies.map(work))
      expect(failed).toEqual([])
    },
    4 * COPY_MS,
  )

  test(`all ${memoryMutants.length} of the in-memory store are detected`, async () => {
    expect(await survivors(memoryMutants, 'memory')).toEqual([])
  }, 300_000)

  test(`all ${journalMutants.length} of the embedded ledger's journal are detected`, async () => {
    expect(await survivors(journalMutants, 'journal')).toEqual([])
  }, 600_000)

  test(`all ${nodeMutants.length} of a node's calls to its store are detected`, async () => {
    expect(await survivors(nodeMutants, 'nodes')).toEqual([])
  }, 300_000)

  test(`all ${restoreMutants.length} of restoring an emptied Redis are detected`, async () => {
    expect(await survivors(restoreMutants, 'emptied')).toEqual([])
  }, 300_000)

  test(`all ${awayMutants.length} of a node that was away for long are detected`, async () => {
    expect(await survivors(awayMutants, 'away')).toEqual([])
  }, 300_000)

  test(`all ${foldMutants.length} of folding a node's old usage are detected`, async () => {
    expect(await survivors(foldMutants, 'folded')).toEqual([])
  }, 300_000)

  test(`all ${sumMutants.length} of summing up a node's usage are detected`, async () => {
    expect(await survivors(sumMutants, 'absent')).toEqual([])
  }, 300_000)

  test(`all ${luaMutants.length} of the scripts are detected`, async () => {
    expect(await survivors(luaMutants, 'redis')).toEqual([])
  }, 600_000)
})
