/** Files that are not YAML: one line each states where, what is wrong and what to do, and never quotes the file. */

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the configuration file are written so

import { expect, test } from 'bun:test'
import { edited, parse } from './fixture.ts'

const CLOSE_LIST = 'a list that begins with [ is not closed, or goes on without indentation; close it with ]'
const CLOSE_GROUP = 'a group that begins with { is not closed, or goes on without indentation; close it with }'
const COLUMN = 'the keys of one group, and the - of the entries of one list, must begin in the same column'
const MORE_TEXT = 'there is more text after the end of a value; remove it, or quote the whole value'
const NO_PAIR = 'this is not key: value; write a colon and a space after the key'

const ROWS: readonly (readonly [what: string, from: string, to: string, line: string])[] = [
  ['a tab', '  openai: {', '\topenai: {', '3: tabs are not allowed as indentation; use spaces'],
  ['a list that is not closed', '[claude]', '[claude', `10: ${CLOSE_LIST}`],
  ['a group that is not closed', 'output: 2 }', 'output: 2', `11: ${CLOSE_GROUP}`],
  [
    'a quote that is not closed',
    '"${OPENAI_API_KEY}"',
    '"canary',
    '26: a quoted string, perhaps of an earlier line, is not closed; close it with the same quote',
  ],
  ['a key too far to the left', '    aliases', '   aliases', `7: ${COLUMN}`],
  ['an entry without its hyphen', '  - name: claude', '  name: claude', `11: ${COLUMN}`],
  ['a key without a space', 'id: acme', 'id:canary', `20: ${NO_PAIR}`],
  ['a comma too many', 'x }', 'x,, }', '4: there is a comma too many; remove it'],
  [
    'two keys on one line',
    'id: acme',
    'id: acme: canary',
    '20: there are two keys on one line; put the second on its own, or a value with : in quotes',
  ],
  ['text after a string', '"${OPENAI_API_KEY}"', '"${OPENAI_API_KEY}" canary', `3: ${MORE_TEXT}`],
  [
    'a tag',
    'id: acme',
    'id: !vault canary',
    '20: the tag (!…) is not known here; weir reads one file without tags, so remove it',
  ],
  [
    'another file',
    'models:',
    'models: !include canary.yaml\nmore:',
    '5: the tag (!…) is not known here; weir reads one file without tags, so remove it',
  ],
  ['a reserved character', 'id: acme', 'id: @canary', '20: a value cannot begin with this character; put it in quotes'],
  [
    'an escape that does not exist',
    'id: acme',
    'id: "\\canary"',
    '20: in double quotes, a backslash begins an escape sequence; double it, or use single quotes',
  ],
  [
    'a reference in braces without quotes',
    '"${OPENAI_API_KEY}"',
    '${OPENAI_API_KEY}',
    `3: ${MORE_TEXT} (within { } and [ ] put a \${…} in quotes)`,
  ],
  [
    'typographic quotes',
    '"${OPENAI_API_KEY}"',
    '“${OPENAI_API_KEY}”',
    `3: ${MORE_TEXT} (line 3 has typographic quotes; use " or ')`,
  ],
  [
    'a no-break space in the indentation',
    '    aliases',
    '\u00a0   aliases',
    `8: ${COLUMN} (line 7 has a space that is no plain one; type it anew)`,
  ],
  ['a section of TOML', '\nproviders:', '[providers]\nopenai = "canary"\nproviders:', `2: ${MORE_TEXT}`],
]

test.each(ROWS)('%s', (_, from, to, line) => {
  const result = parse(edited(from, to))
  const [problem, ...others] = result.ok ? [] : result.problems
  expect(others).toEqual([])
  expect(`${problem?.line}: ${problem?.message}`).toBe(line)
  expect(problem?.path).toStartWith('column ')
  expect(problem?.message).not.toContain('canary')
})

test.each([
  ['os.environ/OPENAI_API_KEY'],
  ['env.OPENAI_API_KEY'],
  ['{env:OPENAI_API_KEY}'],
  ['{$OPENAI_API_KEY}'],
  ['{{ OPENAI_API_KEY }}'],
  ['{{ .Env.OPENAI_API_KEY }}'],
  ['%OPENAI_API_KEY%'],
  ['$(OPENAI_API_KEY)'],
])('%s would be taken as the secret itself', (written) => {
  const result = parse(edited('${OPENAI_API_KEY}', written))
  expect(result).toMatchObject({
    problems: [
      {
        path: 'providers.openai.api_key',
        message: `${written} is how another program refers to a variable; write \${OPENAI_API_KEY}`,
      },
    ],
  })
})
