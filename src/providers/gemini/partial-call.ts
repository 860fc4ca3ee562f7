/**
 * A function call whose arguments Gemini streams: it begins with its name, goes on in parts, each of which sets values
 * at places in the arguments, and ends with a part that does not announce another.
 */

import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'

/** Deeper and longer arguments are those of no function. */
const DEPTH_MAX = 100
const LIST_MAX = 10_000
const CHARS_MAX = 4 * 1024 * 1024

/** A step of a path: `.name`, `['name']`, `["name"]` or `[0]`. */
const STEP = /\.([^.[\]]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/y

/** A container of the arguments. Without a prototype, `__proto__` is a name like any other. */
type Container = Record<string, unknown> | unknown[]

export class PartialCall {
  private readonly args: Record<string, unknown>
  /** The path whose text goes on in the next part. */
  private open: string | undefined
  private chars = 0

  constructor(
    readonly index: number,
    args: JsonValue | undefined,
  ) {
    this.args = isObject(args) ? Object.assign(Object.create(null), args) : Object.create(null)
  }

  /** Sets the values of one part. Throws `ProviderError` `broken`. */
  add(partialArgs: JsonValue | undefined): void {
    if (!isArray(partialArgs)) return
    for (const each of partialArgs) if (isObject(each)) this.set(each)
  }

  /** The arguments so far. */
  get json(): string {
    return JSON.stringify(this.args)
  }

  private set(part: JsonObject): void {
    const path = stringOf(part['jsonPath']) ?? ''
    const value = partValue(part)
    if (value === undefined) return
    this.chars += path.length + (typeof value === 'string' ? value.length : 1)
    if (this.chars > CHARS_MAX) throw broken()
    const steps = stepsOf(path)
    const last = steps.pop()
    if (last === undefined) throw broken()
    let container: Container = this.args
    for (const [at, step] of steps.entries()) {
      const next: unknown = at + 1 < steps.length ? steps[at + 1] : last
      container = inner(container, step, typeof next === 'number')
    }
    const before = memberOf(container, last)
    const goesOn = this.open === path && typeof before === 'string' && typeof value === 'string'
    put(container, last, goesOn ? before + value : value)
    this.open = part['willContinue'] === true ? path : undefined
  }
}

function partValue(part: JsonObject): JsonValue | undefined {
  const { stringValue, numberValue, boolValue, nullValue } = part
  return stringValue ?? numberValue ?? boolValue ?? (nullValue === undefined ? undefined : null)
}

function stepsOf(path: string): (string | number)[] {
  const steps: (string | number)[] = []
  let at = path.startsWith('$') ? 1 : 0
  // Without the root, a path may begin with a name.
  const text = at === 0 && !path.startsWith('[') && !path.startsWith('.') ? `.${path}` : path
  while (at < text.length) {
    STEP.lastIndex = at
    const match = STEP.exec(text)
    if (match === null || steps.length === DEPTH_MAX) throw broken()
    const [whole, name, index, single, double] = match
    steps.push(index === undefined ? (name ?? (single ?? double ?? '').replace(/\\(.)/g, '$1')) : Number(index))
    at += whole.length
  }
  return steps
}

function inner(container: Container, step: string | number, isList: boolean): Container {
  const known = memberOf(container, step)
  if (typeof known === 'object' && known !== null) return known as Container
  const made: Container = isList ? [] : Object.create(null)
  put(container, step, made)
  return made
}

function memberOf(container: Container, step: string | number): unknown {
  if (!Array.isArray(container)) return container[step]
  return typeof step === 'number' ? container[step] : undefined
}

/** Elements that a list has not got yet are null, as in JSON. */
function put(container: Container, step: string | number, value: unknown): void {
  if (!Array.isArray(container)) container[step] = value
  else if (typeof step === 'number' && step <= LIST_MAX) {
    while (container.length < step) container.push(null)
    container[step] = value
  } else throw broken()
}

function broken(): ProviderError {
  return new ProviderError('broken', 'the arguments of a tool call are in parts that do not fit')
}
