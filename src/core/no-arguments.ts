/** The texts that models and servers write for the arguments of a tool call that has none, besides `{}`. */

const NULL = 'null'
/** The most white space around `null`: a longer text counts as arguments. */
const CHARS_MAX = 64

/** True for white space, and for `null`, which servers write whose tool calls have optional arguments. */
export function isNoArguments(json: string): boolean {
  if (json.length > CHARS_MAX) return json.trim() === ''
  const solid = json.trim()
  return solid === '' || solid === NULL
}

/** True for a beginning that more text may still make no arguments. */
export function mayBeNoArguments(beginning: string): boolean {
  return beginning.length <= CHARS_MAX && NULL.startsWith(beginning.trim())
}
