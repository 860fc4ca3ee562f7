/** Random JSON as agents send it: texts with every escape, and the inputs of tools. */

import type { Random } from '../support/random.ts'

/** Parts of the insides of JSON strings, among them what our own marks look like. */
const PARTS = [
  ...['word ', 'const x = 1;\\n', '\\"quoted\\"', '\\\\', '\\\\n', '\\t', '\\/', '\\r\\n', ' ', '\\u0000', '\\u00e9'],
  ...[
    '\\ud83d\\ude00',
    '\\ud800',
    '\\udc00x',
    '\\u2028',
    'ü',
    '日本語',
    'Ж',
    '🙂',
    '\u00a0',
    '\u3000',
    '\u2028',
    '\u007f',
  ],
  ...[
    '{\\"a\\":[1,2,{\\"b\\":\\"c\\\\\\"d\\"}]}',
    '0123456789abcdef01234567\\n0;',
    '0a\\\\n1;',
    ';',
    '\\\\\\"',
    '</tag>',
  ],
] as const

export function inside(random: Random, bytesMax: number): string {
  const length = random.between(0, bytesMax)
  const few = random.list(4, () => random.pick(PARTS))
  let text = ''
  while (text.length < length)
    text += few.length > 0 && random.chance(0.7) ? random.pick([few[0] ?? '', ...few]) : random.pick(PARTS)
  return text
}

/** JSON of an object as agents send it, now and then with something that `JSON.stringify` writes in another way. */
export function inputOfAgent(random: Random): string {
  const odd = (usual: string, ...others: readonly [string, ...string[]]) =>
    random.chance(0.02) ? random.pick(others) : usual
  const blank = () => odd('', ' ', '\n  ', '\t\r')
  const number = () =>
    random.pick([
      '0',
      ...['7', '-12', '123456789012345', '1234567890123456789', '0.5', '-1.25', '1.0', '-0', '1e3', '1E20', '1e21'],
      '0.1e-6',
    ])
  const text = () =>
    `"${odd(random.pick(['a', 'src/a.ts', 'x\\n\\t\\"y\\\\', 'Zürich 日本 🙂']), inside(random, 600))}"`
  const value = (depth: number): string => {
    const kind = random.below(depth > 4 ? 3 : 5)
    if (kind === 0) return random.pick(['true', 'false', 'null', number()])
    if (kind < 3) return text()
    if (kind === 3) return `[${blank()}${random.list(3, () => value(depth + 1)).join(`${blank()},${blank()}`)}]`
    return object(depth + 1)
  }
  const object = (depth: number): string => {
    const names = Array.from({ length: random.below(4) }, (_, at) =>
      odd(`name_${at}`, 'name_0', '', '2', '2a', '__proto__', 'n\\u0061me_0', 'a\\"b', 'größe'),
    )
    const members = names.map((name) => `"${name}"${blank()}:${blank()}${value(depth)}`)
    return `{${blank()}${members.join(`${blank()},${blank()}`)}${blank()}}`
  }
  return object(0)
}
