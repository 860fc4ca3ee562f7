/** The table of commands: `weir keys`. */

import { ORG } from '../reports/parameters.ts'
import { CONFIG, type CommandEntry, type Flag, JSON_FLAG, UNREADABLE, WIDE } from './command-entry.ts'

const KEY_ID: Flag = { name: 'id', value: 'ID', about: 'id of the key (not the key itself)', isRequired: true }

/** The limits of a key or an organisation. */
export const LIMIT_FLAGS: readonly Flag[] = [
  { name: 'spend-day', value: 'USD', about: 'the most that may be spent in a UTC day', mayBeEmpty: true },
  { name: 'spend-month', value: 'USD', about: 'the most in a UTC calendar month', mayBeEmpty: true },
  { name: 'spend-total', value: 'USD', about: 'the most ever', mayBeEmpty: true },
  { name: 'requests-per-minute', value: 'N', about: 'the most requests in a minute', mayBeEmpty: true },
  { name: 'tokens-per-minute', value: 'N', about: 'the most tokens in a minute, in and out', mayBeEmpty: true },
  { name: 'concurrent-requests', value: 'N', about: 'the most requests at the same time', mayBeEmpty: true },
]

/** Flags of `keys create` and `keys update`. */
const KEY_FLAGS: readonly Flag[] = [
  {
    name: 'models',
    value: 'GLOB,…',
    about: 'models that the key may use, with * and ?, among those of its organisation (default: all of them)',
    mayBeEmpty: true,
  },
  ...LIMIT_FLAGS,
  {
    name: 'tags',
    value: 'NAME=VALUE,…',
    about: 'tags of requests that name none themselves; the names must be in tags of the configuration',
    mayBeEmpty: true,
  },
  {
    name: 'expires',
    value: 'WHEN',
    about:
      'when the key expires: after 90d, 12h, 30m or 90s, or at a date (2027-01-31, its first moment in UTC) or ' +
      'an RFC 3339 time (default: never)',
    mayBeEmpty: true,
  },
]

export const KEY_ENTRIES: readonly CommandEntry[] = [
  {
    name: 'keys',
    about: 'creates, changes, lists and revokes API keys',
    description: [
      'Manages API keys beside those of the configuration. They are stored with the ledger; running gateways know a ' +
        'change within a second.',
    ],
    flags: [CONFIG],
    examples: [
      { run: 'weir keys create --org acme --id ci', about: 'prints a new key once' },
      { run: 'weir keys list', about: 'all keys and their states' },
    ],
  },
  {
    name: 'keys create',
    about: 'creates a key and prints it once',
    description: [
      'Creates a key and prints it on standard output. The key cannot be shown again: only its hash is stored. ' +
        'Running gateways accept it from that moment on. Its limits apply in addition to those of its organisation.',
    ],
    flags: [
      {
        name: 'org',
        value: 'ID',
        about: 'organisation of the key, of the configuration or made by weir organizations create',
        isRequired: true,
      },
      {
        name: 'id',
        value: 'ID',
        about: 'name of the key in logs and reports; unique, also among keys that ended in the last 30 days',
        isRequired: true,
      },
      ...KEY_FLAGS.map((flag) => ({ ...flag, mayBeEmpty: false })),
      CONFIG,
    ],
    examples: [
      { run: 'weir keys create --org acme --id ci --expires 90d', about: 'a key for 90 days' },
      { run: "weir keys create --org acme --id bot --models 'gpt-5-*' --spend-day 5", about: 'a key with a budget' },
    ],
    failure: UNREADABLE,
  },
  {
    name: 'keys update',
    about: 'changes limits, models, tags or expiry of a key',
    description: [
      'Changes a key that weir keys create made. What no flag names stays as it is, and an empty value removes: ' +
        "--spend-day '' removes the limit of a day, --tags team= removes one tag. Every worker and gateway applies " +
        'the change within a second; requests that run keep the limits they began with, and what they hold and ' +
        'spend counts.',
    ],
    flags: [KEY_ID, ...KEY_FLAGS, CONFIG],
    examples: [
      { run: 'weir keys update --id ci --spend-day 10 --requests-per-minute 60', about: 'sets two limits' },
      { run: "weir keys update --id ci --spend-day '' --expires ''", about: 'removes the limit and the expiry' },
    ],
    failure:
      'there is no such key, the change is not possible, the ledger cannot be read, or Redis may lose the change',
  },
  {
    name: 'keys rotate',
    about: 'gives a key a new secret and prints it once',
    description: [
      'Gives a key that weir keys create made a new secret, and prints it on standard output. The id stays, and with ' +
        'it usage, limits and history. The old secret is accepted until the grace ends; then every worker and ' +
        'gateway rejects it within a second. Only one old secret is accepted: a second rotation ends the grace of ' +
        'the first.',
    ],
    flags: [
      KEY_ID,
      {
        name: 'grace',
        value: 'DURATION',
        about: 'how long the old secret is accepted, too: 90s, 10m, 24h or 7d (default: not at all)',
      },
      CONFIG,
    ],
    examples: [
      { run: 'weir keys rotate --id ci --grace 24h', about: 'both secrets work for a day' },
      { run: 'weir keys rotate --id ci', about: 'after a leak: the old secret is rejected at once' },
    ],
    failure: 'there is no such key, it is revoked, the ledger cannot be read, or Redis may lose the change',
  },
  {
    name: 'keys list',
    about: 'lists the keys, their limits and states',
    description: [
      'Lists the keys of the store and of the configuration, by id, with their last use, what they spent and hold in ' +
        'this UTC day, and their limit of a day. The state is active, expired, revoked, disabled (also by its ' +
        'organisation), or orphaned: its organisation is no longer in the configuration, and the key is rejected. ' +
        'A key that was revoked or has expired is listed for another 30 days; its spend is kept.',
    ],
    flags: [
      ORG,
      JSON_FLAG(
        'print {"keys": [{"id", "organization", "source", "shown", "models", "limits", "tags", "created_at", ' +
          '"expires_at", "revoked_at", "grace_until", "last_used_at", "spend_today_micro_usd", "state"}]}; source is ' +
          'store or configuration; a missing value is null',
      ),
      WIDE,
      CONFIG,
    ],
    examples: [
      { run: 'weir keys list --org acme', about: 'the keys of one organisation' },
      { run: 'weir keys list --json | jq \'.keys[] | select(.state == "expired").id\'', about: 'for a script' },
    ],
    failure: UNREADABLE,
  },
  {
    name: 'keys revoke',
    about: 'makes every gateway reject a key',
    description: [
      'Revokes a key. Every worker and gateway rejects it within a second. The id of a key that weir keys create ' +
        'made cannot be used again for 30 days. A key of the configuration stays revoked until that ' +
        'drops it or sets disabled: true.',
    ],
    flags: [KEY_ID, CONFIG],
    examples: [
      { run: 'weir keys revoke --id ci', about: 'at once, on all nodes' },
      { run: 'weir keys revoke --id ci --config /etc/weir/weir.yaml', about: 'with the file of the system' },
    ],
    failure: 'there is no such key, the ledger cannot be read, or Redis may lose the change',
  },
]
