/** `weir prices diff`: the prices of the configuration against a price list, which `--apply` writes into the file. */

import fs from 'node:fs'
import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig, loadConfigText, readConfigText } from '../config/load.ts'
import { quoted } from '../config/problems.ts'
import { messageOf } from '../core/error-message.ts'
import type { ModelConfig } from '../core/model-config.ts'
import { matches } from '../core/permission.ts'
import {
  byDearness,
  completed,
  differenceText,
  isWritable,
  listedPrice,
  priceDifferences,
} from '../import/price-differences.ts'
import { withPrice } from '../import/price-edits.ts'
import { type PriceList, PriceListProblem, readPriceList } from '../import/price-list.ts'
import { Ended, exit, failed, parseFlags, printToStderr, readFile, requiredText } from './command.ts'

export const actions = { diff }

/** Returns 1 if a price differs, and with `--apply` only if one still does. */
async function diff(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'prices diff')
  const list = readFile(requiredText(flags, 'from'), readPriceList, PriceListProblem)
  const file = await configFile(typeof flags['config'] === 'string' ? flags['config'] : undefined)
  const config = orEnd(await loadConfig(file, environment(), { use: 'ledger' }))
  const glob = String(flags['model'] ?? '*')
  const wanted = config.models.flatMap((model, index) => (isNamed(model, glob) ? [index] : []))
  if (wanted.length === 0) return failed(`--model ${quoted(glob)} matches no model of ${file}`)
  const found = wanted.map((index) => ({ index, ...wantedOf(config, index, list) }))
  for (const line of byDearness(found.flatMap(({ differences }) => differences)).map(differenceText))
    process.stdout.write(`${line}\n`)
  const unlisted = found.filter(({ theirs }) => theirs === undefined).map(({ model }) => model.name)
  if (unlisted.length > 0) printToStderr(`not in the list: ${unlisted.join(', ')}`)
  const isAll = found.every(({ differences }) => differences.every(isWritable))
  const differing = found.filter(({ differences }) => differences.some(isWritable)).map(({ index }) => index)
  const isDone =
    differing.length === 0 ? isAll : flags['apply'] === true && (await apply(file, list, differing)) && isAll
  return isDone ? exit.done : exit.wrong
}

function isNamed({ name, aliases }: ModelConfig, glob: string): boolean {
  return [name, ...aliases].some((each) => matches(glob, each))
}

function wantedOf(config: Config, index: number, list: PriceList) {
  const model = config.models[index]
  if (model === undefined) throw new Error(`there is no model ${index}`)
  const dialects = new Map(config.providers.map(({ name, dialect }) => [name, dialect as string]))
  const theirs = listedPrice(list, model, dialects)
  const differences = theirs === undefined ? [] : priceDifferences(model.name, model.price, theirs)
  return { model, theirs: theirs && completed(theirs, model.price), differences }
}

/**
 * Writes the prices of these models into the file, each of them wholly or not at all. False if one could not be
 * written.
 */
async function apply(file: string, list: PriceList, indexes: readonly number[]): Promise<boolean> {
  const read = readConfigText(file)
  if ('error' in read) {
    printToStderr(`${file}: ${read.error}`)
    return false
  }
  let text = read.text
  let written = 0
  for (const index of indexes) {
    const next = await withPrice(text, index, async (candidate) => {
      const loaded = await loadConfigText(candidate, file, environment(), { use: 'ledger' })
      if (!loaded.ok) return { problem: loaded.problems[0] ?? '' }
      const { model, theirs, differences } = wantedOf(loaded.config, index, list)
      return { ours: model.price, theirs, differences: differences.filter(isWritable) }
    })
    if ('problem' in next) printToStderr(`${file}: models[${index}].price ${next.problem}; correct it yourself`)
    else {
      text = next.text
      written++
    }
  }
  if (text !== read.text) replaceFile(file, text)
  process.stdout.write(`${file}: prices of ${written} ${written === 1 ? 'model' : 'models'} written\n`)
  return written === indexes.length
}

/** Replaces the file by a rename, so that no reader sees half of it. A symbolic link is kept. */
function replaceFile(file: string, text: string): void {
  const path = fs.realpathSync(file)
  const { mode, uid, gid } = fs.statSync(path)
  // Readers of UTF-8 drop a byte order mark.
  const mark = fs.readFileSync(path).subarray(0, 3).toString('hex') === 'efbbbf' ? '\uFEFF' : ''
  const fresh = `${path}.new`
  try {
    fs.writeFileSync(fresh, mark + text, { mode: mode & 0o777, flush: true })
    fs.chmodSync(fresh, mode & 0o777)
    if (process.getuid?.() === 0) fs.chownSync(fresh, uid, gid)
    fs.renameSync(fresh, path)
  } catch (error) {
    fs.rmSync(fresh, { force: true })
    printToStderr(`${file}: cannot be written: ${messageOf(error)}`)
    throw new Ended(exit.wrong)
  }
}

function orEnd(loaded: Awaited<ReturnType<typeof loadConfig>>): Config {
  if (loaded.ok) return loaded.config
  process.stderr.write(`${loaded.problems.join('\n')}\n`)
  throw new Ended(exit.wrong)
}
