/**
 * Keys that an attacker tries first: words from examples and the most common passwords. A file may hold only a hash,
 * so hashes of them are compared, too.
 */

import { hashOf } from './key-hash.ts'

/** The hash in weir.example.yaml. */
export const PLACEHOLDER_HASH = '0'.repeat(64)

const WORDS = `
  abc abcd access admin administrator anthropic apikey api-key api_key app azure bar baz bearer bedrock change
  changeit changeme change-me change_me ci claude client credential credentials default demo dev development dummy
  example fake foo foobar gateway gemini gpt guest hello helloworld hunter2 key letmein litellm llm local localhost
  login master master-key mykey my-key my_key my-secret mysecret none null openai password passwd passw0rd p4ssw0rd
  pass placeholder prod production proxy pw qwerty replace replaceme replace-me root sample sandbox secret secretkey
  secret-key secret_key sesame service sk sk-1234 sk-test staging supersecret super-secret temp temporary test testing
  test-key testkey test_key testtest tmp todo token undefined unset user username weir weir-key weirkey welcome word x
  xxx xxxx xxxxxxxx your-api-key your-key your_api_key your-secret yourkey $KEY $WEIR_KEY $API_KEY $NAME WEIR_KEY 0 1
  12 123 1234 12345 123456 1234567 12345678 123456789 1234567890 0000 00000000 1111 11111111 0123456789 987654321
  1234567890abcdef 1234567890123456 aaaaaaaa abcdefghijklmnop abcdefghijklmnopqrstuvwxyz qwertyuiopasdfgh
  correct-horse-battery-staple correcthorsebatterystaple your-api-key-here your_api_key_here yourapikeyhere
  your-key-here your_key_here your-secret-key your_secret_key insert-your-key-here replace-with-your-key
  replace_with_your_key my-api-key my_api_key my-secret-key my_secret_key
`
  .split(/\s+/)
  .filter(Boolean)

/** What people append to a word, and the line break that `echo` adds. */
const ENDINGS = ['', '\n', '\r\n', '!', '1', '12', '123', '1234', '12345', '-1', '-123', '2024', '2025', '2026', '2027']

let words: ReadonlySet<string> | undefined
let hashes: ReadonlySet<string> | undefined

function allWords(): ReadonlySet<string> {
  // The empty string is what a variable that is not set expands to.
  words ??= new Set(['', '\n', ' ', ...WORDS.flatMap(variants)])
  return words
}

export function isWellKnown(word: string): boolean {
  return allWords().has(word)
}

/** The first call takes some milliseconds. */
export function isHashOfWellKnown(hash: string): boolean {
  hashes ??= new Set(Array.from(allWords(), hashOf))
  return hashes.has(hash)
}

/**
 * The word in lower case, capitalised, in upper case, twice in a row, and with the prefix of OpenAI's keys; each with
 * every ending.
 */
function variants(word: string): readonly string[] {
  const lower = word.toLowerCase()
  const capital = `${lower.charAt(0).toUpperCase()}${lower.slice(1)}`
  const forms = new Set([word, lower, capital, word.toUpperCase(), `${word}${word}`, `${word}-${word}`, `sk-${word}`])
  return [...forms].flatMap((form) => ENDINGS.map((ending) => `${form}${ending}`))
}
