/**
 * The table of the commands: every string that `weir help` and `--help` print, and every flag that a command takes.
 * The parser of the flags, the help, the tests of the documentation, manual pages and shell completion are made from
 * it. It holds no code, and loads nothing.
 */

/** `--name VALUE`, or a switch if there is no `value`. */
export interface Flag {
  /** Without the dashes. */
  readonly name: string
  /** What stands for the value in the help: `FILE`, `N`. Absent: the flag is a switch. */
  readonly value?: string
  /** What completion offers as values. */
  readonly choices?: readonly string[]
  readonly about: string
  readonly isRequired?: boolean
  /** An empty value is allowed: it removes what was set. */
  readonly mayBeEmpty?: boolean
}

/** A command line without the `$`, and what it does. */
interface Example {
  readonly run: string
  readonly about: string
}

export interface CommandEntry {
  /** One word, or two for a command of a group: `usage`, `keys create`. A group (`keys`) has an entry, too. */
  readonly name: string
  /** The rest of a sentence that begins with the command; no full stop. */
  readonly about: string
  /** The argument that is not a flag, if the command takes one. It is required, except for `help`. */
  readonly argument?: { readonly name: string; readonly about: string; readonly isOptional?: boolean }
  /** Paragraphs, not wrapped. */
  readonly description: readonly string[]
  /** All flags but `--help`. */
  readonly flags: readonly Flag[]
  /** Paragraphs that follow the flags, not wrapped. */
  readonly notes?: readonly string[]
  readonly examples: readonly [Example, Example, ...Example[]]
  /** When the exit code is 1; absent if that never happens. 0 is success, 2 wrong usage. */
  readonly failure?: string
}

const CONFIG: Flag = {
  name: 'config',
  value: 'FILE',
  about: 'configuration file (default: ./weir.yaml, then /etc/weir/weir.yaml)',
}

const JSON_FLAG = (about: string): Flag => ({ name: 'json', about })

const WIDE: Flag = { name: 'wide', about: 'show all columns, also those that do not fit the terminal' }

const ORG: Flag = { name: 'org', value: 'ID', about: 'only this organisation' }
const KEY: Flag = { name: 'key', value: 'ID', about: 'only this key (its id, not the key itself)' }

const UNREADABLE = 'the configuration or the ledger cannot be read'

const serving: readonly CommandEntry[] = [
  {
    name: 'serve',
    about: 'runs the gateway',
    description: ['Runs the gateway in the foreground.'],
    flags: [
      CONFIG,
      { name: 'port', value: 'N', about: 'listen on this port instead of the configured one; 0 picks a free port' },
      {
        name: 'workers',
        value: 'N',
        about: 'run N worker processes instead of the configured number',
      },
    ],
    notes: [
      'Signals: SIGTERM and SIGINT shut down after running requests have finished, within drain_seconds; a second ' +
        'signal cuts them. SIGHUP checks the configuration and applies it. SIGUSR2 replaces the workers by workers ' +
        'started from the program file as it now is. SIGQUIT and SIGUSR1 are ignored.',
    ],
    examples: [
      { run: 'weir serve', about: 'with ./weir.yaml or /etc/weir/weir.yaml' },
      { run: 'weir serve --config /etc/weir/weir.yaml --port 8081', about: 'on another port' },
    ],
    failure: 'the gateway cannot start',
  },
  {
    name: 'check',
    about: 'checks the configuration',
    description: [
      'Reads the configuration as weir serve does and prints every problem on standard error, one per line: the line ' +
        'of the file, the path of the value, what is wrong and what to do. Values that are valid and probably not ' +
        'meant, such as a price per token, are warnings. Opens no port.',
    ],
    flags: [
      CONFIG,
      { name: 'strict', about: 'exit with 1 also if there are only warnings' },
      {
        name: 'providers',
        about:
          'also send one smallest request to each target, and print whether the provider is reachable, accepts the ' +
          'credential and knows the model; an image model generates one image, which costs money. Also warn of ' +
          'prices that are far from those that a provider publishes',
      },
    ],
    examples: [
      { run: 'weir check', about: 'checks the file that weir serve would read' },
      { run: 'weir check --strict --providers', about: 'before a new file goes live' },
      { run: 'weir check --config new.yaml && mv new.yaml weir.yaml', about: 'replaces the file only if it is valid' },
    ],
    failure: 'the configuration is not valid, or a target fails',
  },
]

const running: readonly CommandEntry[] = [
  {
    name: 'reload',
    about: 'makes the running gateway read its configuration again',
    description: [
      'Asks the gateway that runs with this data_dir to check its configuration and to apply it. Prints what ' +
        'changed, one line each: + model gpt-5, ~ price of claude-sonnet, - key ci. If the configuration has ' +
        'problems, prints all of them, and the one before stays in force. References to the environment are those ' +
        'of the gateway.',
    ],
    flags: [CONFIG],
    examples: [
      { run: 'weir reload', about: 'as kill -HUP does, with an answer' },
      { run: 'weir check && weir reload', about: 'shows warnings first' },
    ],
    failure: 'the configuration was rejected, or no gateway runs with this data_dir',
  },
  {
    name: 'health',
    about: 'exits 0 if the running gateway is ready',
    description: [
      'Asks the gateway that runs with this data_dir whether every worker accepts requests and the ledger answers, ' +
        'as GET /readyz does. For containers without curl.',
    ],
    flags: [CONFIG],
    examples: [
      { run: 'weir health', about: 'prints ready, or why not' },
      { run: 'weir health --config /etc/weir/weir.yaml', about: 'as a health check of a container' },
    ],
    failure: 'the gateway is not ready (the reason is on standard error)',
  },
  {
    name: 'top',
    about: 'shows live figures in the terminal',
    description: [
      'Shows what the console shows, and redraws it every second: requests, streams, errors and tokens a second, ' +
        'what needs attention, the targets, the fullest budgets and the last requests. Reads them from the admin ' +
        'port at the address and with the token of the configuration. q or Ctrl-C ends it. In a pipe it prints one ' +
        'frame.',
    ],
    flags: [{ name: 'once', about: 'print one frame and end' }, CONFIG],
    examples: [
      { run: 'weir top', about: 'live, until q' },
      { run: 'weir top --once', about: 'one look, for a ticket' },
    ],
    failure: 'the configuration is not valid, or the admin port cannot be reached',
  },
  {
    name: 'alerts',
    about: 'tries the webhook that alerts are posted to',
    description: ['Tries the webhook of alerts.'],
    flags: [CONFIG],
    examples: [
      { run: 'weir alerts test', about: 'posts one alert' },
      { run: 'weir alerts test --help', about: 'its flags' },
    ],
  },
  {
    name: 'alerts test',
    about: 'posts one alert of the type test to the webhook',
    description: [
      'Asks the gateway that runs with this data_dir to post one alert of the type test, with the webhook and the ' +
        'secret that it uses, and prints delivered, or why the webhook did not take it. If no gateway runs, posts it ' +
        'itself. It is posted once, and not tried again.',
    ],
    flags: [CONFIG],
    examples: [
      { run: 'weir alerts test', about: 'prints delivered, or the reason' },
      { run: 'weir reload && weir alerts test', about: 'after a change of the webhook' },
    ],
    failure: 'the alert was not delivered, or the configuration has no alerts',
  },
]

const files: readonly CommandEntry[] = [
  {
    name: 'backup',
    about: 'copies what data_dir must not lose, while weir serves',
    argument: { name: 'DIR', about: 'a directory that is empty or does not exist; can be used as data_dir' },
    description: [
      'Makes a consistent copy of data_dir in DIR: the ledger with its journal, created keys, the outbox, and the ' +
        'compaction key. The gateway may run. To restore, stop the gateway and put the copy in place of data_dir.',
    ],
    flags: [CONFIG],
    examples: [
      { run: 'weir backup /var/backups/weir-$(date +%F)', about: 'one copy a day' },
      { run: 'weir backup /mnt/weir --config /etc/weir/weir.yaml', about: 'with the file of the system' },
    ],
    failure: 'no backup was made',
  },
  {
    name: 'import',
    about: 'makes a weir.yaml from the configuration of another gateway',
    description: ['Prints a configuration of weir made from that of another gateway.'],
    flags: [CONFIG],
    examples: [
      { run: 'weir import litellm config.yaml > weir.yaml', about: 'from a LiteLLM proxy' },
      { run: 'weir import litellm --help', about: 'what is carried over' },
    ],
  },
  {
    name: 'import litellm',
    about: 'makes a weir.yaml from the configuration of a LiteLLM proxy',
    argument: { name: 'FILE', about: 'the config.yaml of the LiteLLM proxy' },
    description: [
      'Prints a weir.yaml with the models, providers, credentials, fallbacks, aliases, prices and the master key of ' +
        `a LiteLLM proxy. os.environ/NAME becomes \${NAME}. What cannot be carried over, and what is assumed, is one ` +
        'line each on standard error, and so are the variables that must be set. The result passes weir check then.',
    ],
    flags: [CONFIG],
    examples: [
      { run: 'weir import litellm config.yaml > weir.yaml', about: 'notes appear on the terminal' },
      { run: 'weir import litellm config.yaml 2> notes.txt > weir.yaml', about: 'keeps the notes' },
    ],
    failure: 'the file is no configuration of LiteLLM, or has nothing that weir can serve',
  },
  {
    name: 'schema',
    about: 'prints the JSON Schema of the configuration',
    description: ['Prints the JSON Schema of the configuration file, for editors and other programs.'],
    flags: [CONFIG],
    examples: [
      { run: 'weir schema > weir.schema.json', about: 'for an editor' },
      { run: "weir schema | jq '.properties | keys'", about: 'the sections of the file' },
    ],
  },
]

const asking: readonly CommandEntry[] = [
  {
    name: 'explain',
    about: 'shows what would happen to a request',
    description: [
      'Shows what would happen to a request of this key for this model: which rule allows or denies it, the ' +
        'candidates in the order in which they would be tried, why others are excluded, which targets rest, prices, ' +
        'and what is left of each limit. An error that the caller would get is shown, too; the exit code is 0 then.',
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
        about: 'the request needs N tokens of the context window, input and output together',
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

const KEY_ID: Flag = { name: 'id', value: 'ID', about: 'id of the key (not the key itself)', isRequired: true }

/** Flags of `keys create` and `keys update`. */
const KEY_FLAGS: readonly Flag[] = [
  {
    name: 'models',
    value: 'GLOB,…',
    about: 'models that the key may use, with * and ?, among those of its organisation (default: all of them)',
    mayBeEmpty: true,
  },
  { name: 'spend-day', value: 'USD', about: 'the most that the key may spend in a UTC day', mayBeEmpty: true },
  { name: 'spend-month', value: 'USD', about: 'the most in a UTC calendar month', mayBeEmpty: true },
  { name: 'spend-total', value: 'USD', about: 'the most ever', mayBeEmpty: true },
  { name: 'requests-per-minute', value: 'N', about: 'the most requests in a minute', mayBeEmpty: true },
  { name: 'tokens-per-minute', value: 'N', about: 'the most tokens in a minute, in and out', mayBeEmpty: true },
  { name: 'concurrent-requests', value: 'N', about: 'the most requests at the same time', mayBeEmpty: true },
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

const keys: readonly CommandEntry[] = [
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
        about: 'organisation of the key; it must be in the configuration',
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
    failure: 'there is no such key, the change is not possible, or the ledger cannot be read',
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
    failure: 'there is no such key, it is revoked, or the ledger cannot be read',
  },
  {
    name: 'keys list',
    about: 'lists the keys, their limits and states',
    description: [
      'Lists the keys of the store and of the configuration, by id, with their last use, what they spent and hold in ' +
        'this UTC day, and their limit of a day. The state is active, expired, revoked, disabled, or orphaned: the ' +
        'organisation of an orphaned key is no longer in the configuration, and the key is rejected. A key that was ' +
        'revoked or has expired is listed for another 30 days; its spend is kept.',
    ],
    flags: [
      { name: 'org', value: 'ID', about: 'only keys of this organisation' },
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
    failure: 'there is no such key, or the ledger cannot be read',
  },
]

const reports: readonly CommandEntry[] = [
  {
    name: 'usage',
    about: 'shows requests, tokens and spend',
    description: [
      'Prints requests, tokens and spend from the ledger. Requests that were rejected or reached no provider are not ' +
        'included. Input tokens include cached ones. A request counts on the UTC day on which it was admitted. After ' +
        '400 days usage is kept by month only and counts on the first day of its month: a range that begins or ends ' +
        'within such a month includes all of the month or nothing of it. Hours are kept for 31 days.',
    ],
    flags: [
      ORG,
      KEY,
      {
        name: 'since',
        value: 'DATE',
        about: 'from this UTC day on, as 2026-11-01 (default: the first day of this month)',
      },
      { name: 'until', value: 'DATE', about: 'before this UTC day (default: tomorrow, or the day after --since)' },
      {
        name: 'by',
        value: 'COLUMNS',
        choices: ['model', 'key', 'org', 'provider', 'day', 'hour', 'tag:NAME'],
        about: 'one row for each value of a column, or for several of them: key,model (default: model)',
      },
      JSON_FLAG('print JSON; cost is in micro-dollars'),
      { name: 'csv', about: 'print CSV with the columns of the JSON, without the total' },
      WIDE,
      CONFIG,
    ],
    examples: [
      { run: 'weir usage', about: 'this month, by model' },
      { run: 'weir usage --by org,model', about: 'each model of each organisation' },
      { run: 'weir usage --by provider,hour --since 2026-11-22', about: 'each hour of a day, by provider' },
      { run: 'weir usage --org acme --since 2026-11-01 --by day --csv', about: 'for a spreadsheet' },
    ],
    failure: UNREADABLE,
  },
  {
    name: 'audit',
    about: 'shows the audit trail, one line a request',
    description: [
      'Prints the audit trail: one line per request that was admitted and has ended, with its time, organisation, ' +
        'key, model, tokens, cost and outcome. Requests that a limit rejected are not included. The lines of one ' +
        'organisation are in the order in which the requests ended.',
    ],
    flags: [
      ORG,
      KEY,
      {
        name: 'request',
        value: 'ID',
        about: 'only this request, by the x-request-id of its answer; searches all times unless --since is given',
      },
      {
        name: 'since',
        value: 'TIME',
        about:
          'requests that ended at this time or later: a date (2026-11-01, from 00:00 UTC on) or an RFC 3339 time ' +
          '(default: today)',
      },
      { name: 'until', value: 'TIME', about: 'requests that ended before this time (default: now)' },
      { name: 'model', value: 'NAME', about: 'only requests that this public model served' },
      {
        name: 'outcome',
        value: 'WORD',
        choices: ['completed', 'caller_left', 'provider_cut', 'timed_out', 'drained', 'refused'],
        about: 'only requests that ended so: completed, caller_left, provider_cut, timed_out, drained or refused',
      },
      { name: 'tag', value: 'NAME=VALUE', about: 'only requests with this tag, or with several: project=a,team=b' },
      {
        name: 'admin',
        about:
          'print the admin audit instead: one line for each change by weir keys, the admin API or a reload, with ' +
          'time, source (cli, api, config), action, target and details; --since, --until and the flags below apply',
      },
      { name: 'limit', value: 'N', about: 'the last N lines; 0 prints all of them (default: 100)' },
      { name: 'follow', about: 'go on and print lines as they are added, until Ctrl-C' },
      JSON_FLAG('print one JSON object per line; cost is in micro-dollars, a missing value is null'),
      { name: 'csv', about: 'print CSV with the columns of the JSON' },
      WIDE,
      CONFIG,
    ],
    notes: [
      'The column ended shows how the ledger learned of the end: settled; late (settled after the lease had ' +
        'expired); direct (settled although the ledger had lost the reservation, or could not be reached to make ' +
        'one); lost (not settled: the gateway died); cancelled (the request was never sent); withdrawn (the same, ' +
        'after it had been lost). Lines are kept for audit.keep_days (90 by default). Redis keeps at most the last ' +
        '100,000 requests of an organisation, and 1 GiB for all organisations together.',
    ],
    examples: [
      { run: 'weir audit --key ci', about: 'what a key did today' },
      { run: 'weir audit --follow --outcome provider_cut', about: 'watches for streams that providers cut' },
      { run: 'weir audit --admin', about: 'who changed keys and configuration' },
      { run: 'weir audit --request req_01a200e36f85717699232da6a40dcb32 --json', about: 'one request' },
    ],
    failure: UNREADABLE,
  },
  {
    name: 'ledger',
    about: 'resets budgets that a wrong clock renewed too early',
    description: ['Repairs the ledger.'],
    flags: [CONFIG],
    examples: [
      { run: 'weir ledger reset-window --org acme', about: 'moves budget windows back' },
      { run: 'weir ledger reset-window --help', about: 'its flags' },
    ],
  },
  {
    name: 'ledger reset-window',
    about: 'moves back budget windows that a wrong clock opened too early',
    description: [
      'Budgets of a day or a month never return to an earlier window. If a clock was ahead, they would not renew ' +
        'until the true time has caught up. This command moves the windows of an organisation and its keys back to ' +
        'today and this month, with the spend that weir usage reports for them. With the embedded ledger, stop the ' +
        'gateway first. With Redis it may run; requests that are in flight at that moment count in the total budget ' +
        'only.',
    ],
    flags: [{ name: 'org', value: 'ID', about: 'the organisation', isRequired: true }, CONFIG],
    examples: [
      { run: 'weir ledger reset-window --org acme', about: 'prints how many windows moved' },
      {
        run: 'weir ledger reset-window --org acme --config /etc/weir/weir.yaml',
        about: 'with the file of the system',
      },
    ],
    failure: 'the ledger cannot be used',
  },
]

/** In the order of the help. An entry of a group follows its group. */
export const COMMANDS: readonly CommandEntry[] = [...serving, ...running, ...keys, ...reports, ...files, ...asking]

/** The entry of a command that the code names. Throws on a name that the table does not have. */
export function commandEntry(name: string): CommandEntry {
  const entry = COMMANDS.find((each) => each.name === name)
  if (entry === undefined) throw new Error(`the table of commands has no ${name}`)
  return entry
}

/** The commands of a group: `keys` has `create`, `list` and `revoke`. Empty for other commands. */
export function actionsOf(group: string): readonly string[] {
  return COMMANDS.flatMap(({ name }) => (name.startsWith(`${group} `) ? [name.slice(group.length + 1)] : []))
}
