/** The table of commands: `weir organizations`. */

import { CONFIG, type CommandEntry, type Flag, JSON_FLAG, UNREADABLE, WIDE } from './command-entry.ts'
import { LIMIT_FLAGS } from './key-entries.ts'

const ID: Flag = { name: 'id', value: 'ID', about: 'id of the organisation', isRequired: true }

const ORGANIZATION_FLAGS: readonly Flag[] = [
  {
    name: 'models',
    value: 'GLOB,…',
    about: 'models that the organisation may use, with * and ? (default: all of them)',
    mayBeEmpty: true,
  },
  ...LIMIT_FLAGS,
]

const JSON_ROW = JSON_FLAG('print {"id", "source", "models", "limits", "created_at", "state", "warnings"}')

export const ORGANIZATION_ENTRIES: readonly CommandEntry[] = [
  {
    name: 'organizations',
    about: 'creates, changes, lists and disables organisations',
    description: [
      'Manages organisations beside those of the configuration. They are stored with the ledger, as keys are; ' +
        'running gateways know a change within a second. Their keys are made by weir keys create.',
    ],
    flags: [CONFIG],
    examples: [
      { run: 'weir organizations create --id acme --spend-month 500', about: 'an organisation with a budget' },
      { run: 'weir organizations list', about: 'all organisations and their states' },
    ],
  },
  {
    name: 'organizations create',
    about: 'creates an organisation',
    description: [
      'Creates an organisation without keys; weir keys create --org makes keys for it at once. Its limits hold for ' +
        'all of its keys together.',
    ],
    flags: [ID, ...ORGANIZATION_FLAGS.map((flag) => ({ ...flag, mayBeEmpty: false })), JSON_ROW, CONFIG],
    examples: [
      { run: 'weir organizations create --id acme --spend-month 500', about: 'with a budget' },
      { run: "weir organizations create --id trial --models 'gpt-5-*' --requests-per-minute 60", about: 'with less' },
    ],
    failure: 'the id is used, also by the configuration, a spend limit lacks a price, or the ledger cannot be read',
  },
  {
    name: 'organizations update',
    about: 'changes models or limits of an organisation, or enables it again',
    description: [
      'Changes an organisation that weir organizations create made. What no flag names stays as it is, and an empty ' +
        "value removes: --spend-day '' removes the limit of a day. Requests that run keep the limits they began with.",
    ],
    flags: [
      ID,
      ...ORGANIZATION_FLAGS,
      { name: 'enable', about: 'accept its keys again, after weir organizations disable' },
      JSON_ROW,
      CONFIG,
    ],
    examples: [
      { run: 'weir organizations update --id acme --spend-month 800', about: 'a larger budget' },
      { run: 'weir organizations update --id acme --enable', about: 'after weir organizations disable' },
    ],
    failure: 'there is no such organisation, it is in the configuration, or the ledger cannot be read',
  },
  {
    name: 'organizations list',
    about: 'lists the organisations, their limits and states',
    description: [
      'Lists the organisations of the store and of the configuration, by id. The state is active, disabled, or ' +
        'overridden: the configuration has an organisation of the same id, and that one holds.',
    ],
    flags: [
      JSON_FLAG(
        'print {"organizations": [{"id", "source", "models", "limits", "created_at", "state"}]}; source is store or ' +
          'configuration; a missing value is null',
      ),
      WIDE,
      CONFIG,
    ],
    examples: [
      { run: 'weir organizations list', about: 'as a table' },
      { run: "weir organizations list --json | jq -r '.organizations[].id'", about: 'for a script' },
    ],
    failure: UNREADABLE,
  },
  {
    name: 'organizations disable',
    about: 'makes every gateway reject the keys of an organisation',
    description: [
      'Disables an organisation: every worker and gateway rejects its keys within a second, as disabled ones, and ' +
        'cuts their running streams within 10 s. Its usage and budgets are kept. weir organizations update --enable ' +
        'undoes it.',
    ],
    flags: [ID, JSON_ROW, CONFIG],
    examples: [
      { run: 'weir organizations disable --id acme', about: 'at once, on all nodes' },
      { run: 'weir organizations update --id acme --enable', about: 'the way back' },
    ],
    failure: 'there is no such organisation, it is in the configuration, or the ledger cannot be read',
  },
]
