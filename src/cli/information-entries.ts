/** The table of commands: those that only inform: about a request, the program, its commands. */

import { EXPLAIN_PARAMETERS } from '../reports/parameters.ts'
import { CONFIG, type CommandEntry, JSON_FLAG } from './command-entry.ts'

export const INFORMATION_ENTRIES: readonly CommandEntry[] = [
  {
    name: 'explain',
    about: 'shows what would happen to a request',
    description: [
      'Shows what would happen to a request of this key for this model: which rule allows or denies it, the ' +
        'candidates in the order in which they would be tried, why others are excluded, which targets rest, prices, ' +
        'and what is left of each limit. The second line is what the caller would get now: an error word for word, ' +
        'with limits checked as for a real request, or the target that is asked first. The exit code is 0 for both.',
    ],
    flags: [
      ...EXPLAIN_PARAMETERS,
      JSON_FLAG('print JSON; money is in micro-dollars, and "lines" has the text'),
      CONFIG,
    ],
    examples: [
      { run: 'weir explain --key ci --model gpt-5-mini', about: 'who may use it, and what is left of the budgets' },
      { run: 'weir explain --key ci --model auto --images --tokens 90000', about: 'a large request with images' },
    ],
    failure: 'the key is unknown, or the configuration cannot be read',
  },
  {
    name: 'version',
    about: 'prints the version of weir and of Bun',
    description: ['Prints the version, the commit that it was built from, and the version of Bun.'],
    flags: [],
    examples: [
      { run: 'weir version', about: 'one line' },
      { run: 'weir --version', about: 'the same' },
    ],
  },
  {
    name: 'help',
    about: 'shows the commands, or the flags of one',
    argument: { name: 'COMMAND', about: 'a command, such as usage or keys create', isOptional: true },
    description: ['Shows the list of commands, or what weir COMMAND --help shows.'],
    flags: [],
    examples: [
      { run: 'weir help', about: 'the list of commands' },
      { run: 'weir help keys create', about: 'the flags of one' },
    ],
  },
]
