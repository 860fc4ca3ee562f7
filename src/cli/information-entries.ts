/** The table of commands: those that only inform: about a request, the program, its commands. */

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
      {
        name: 'key',
        value: 'ID',
        about: 'id of the key (not the key itself): a key of the configuration, or one that weir keys create made',
        isRequired: true,
      },
      {
        name: 'model',
        value: 'NAME',
        about: 'model as the caller would name it: a public name, an alias or auto',
        isRequired: true,
      },
      { name: 'images', about: 'the request has images' },
      { name: 'tools', about: 'the request has tools' },
      {
        name: 'tokens',
        value: 'N',
        about: 'the input tokens of the request, as weir estimates them',
      },
      {
        name: 'output-tokens',
        value: 'N',
        about: 'the output limit of the request (max_tokens); without it none, as in Chat Completions',
      },
      {
        name: 'ttl',
        value: '5m|1h',
        choices: ['5m', '1h'],
        about: 'the request asks for prompt caching of that duration',
      },
      {
        name: 'conversation',
        value: 'TEXT',
        about: 'the prompt_cache_key of the request: shows the order of targets with spread: weighted',
      },
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
