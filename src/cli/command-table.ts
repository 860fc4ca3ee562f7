/**
 * The table of the commands: every string that `weir help` and `--help` print, and every flag that a command takes.
 * The parser of the flags, the help, the tests of the documentation, manual pages and shell completion are made from
 * it. It holds no code of a command, and loads none.
 */

import {
  AUDIT_PARAMETERS,
  COUNTER_PARAMETERS,
  EXPLAIN_PARAMETERS,
  ORG,
  type Parameter,
  parameter,
  USAGE_PARAMETERS,
} from '../reports/parameters.ts'

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
  readonly flags: readonly Parameter[]
  /** Paragraphs that follow the flags, not wrapped. */
  readonly notes?: readonly string[]
  /** A command line without the `$`, and what it does. */
  readonly examples: readonly (readonly [run: string, about: string])[]
  /** When the exit code is 1; absent if that never happens. 0 is success, 2 wrong usage. */
  readonly failure?: string
}

/** A row as it is written: paragraphs have an empty line between them, and other line ends do not matter. */
interface Row extends Pick<CommandEntry, 'argument' | 'failure'> {
  readonly description: string
  /** `--config` is the last one unless it stands elsewhere or the list is empty; absent: it is the only one. */
  readonly flags?: readonly Parameter[]
  readonly notes?: string
  /** Command lines, each with what it does as a comment. */
  readonly examples: string
}

const CONFIG = parameter('config FILE', 'configuration file (default: ./weir.yaml, then /etc/weir/weir.yaml)')

function command(name: string, about: string, { flags = [CONFIG], ...row }: Row): CommandEntry {
  const oneLine = (text: string) => text.trim().replaceAll(/\s+/g, ' ')
  const paragraphs = (text = '') => text.split(/\n\s*\n/).flatMap((part) => oneLine(part) || [])
  return {
    ...{ name, about, ...row },
    flags: flags.length === 0 || flags.includes(CONFIG) ? flags : [...flags, CONFIG],
    description: paragraphs(row.description),
    notes: paragraphs(row.notes),
    examples: Array.from(row.examples.matchAll(/(.+?)\s+#(.+)/g), ([, run = '', what = '']) => [
      run.trim(),
      what.trim(),
    ]),
  }
}

/** A flag whose empty value removes what was set. */
function removable(form: string, about: string): Parameter {
  return parameter(form, about, { mayBeEmpty: true })
}

/** The flags of a new thing, of which nothing can be removed yet. */
function initial(flags: readonly Parameter[]): readonly Parameter[] {
  return flags.map((flag) => ({ ...flag, mayBeEmpty: false }))
}

const json = (about: string) => parameter('json', about)

const WIDE = parameter('wide', 'show all columns, also those that do not fit the terminal')
/** When most commands that only read exit with 1. */
const UNREADABLE = 'the configuration or the ledger cannot be read'

/** A flag that must be given. */
const required = (form: string, about: string) => parameter(form, about, { isRequired: true })

const KEY_ID = required('id ID', 'id of the key (not the key itself)')

/** The limits of a key or an organisation. */
const LIMIT_FLAGS = [
  removable('spend-day USD', 'the most that may be spent in a UTC day'),
  removable('spend-month USD', 'the most in a UTC calendar month'),
  removable('spend-total USD', 'the most ever'),
  removable('requests-per-minute N', 'the most requests in a minute'),
  removable('tokens-per-minute N', 'the most tokens in a minute, in and out'),
  removable('concurrent-requests N', 'the most requests at the same time'),
]

/** Flags of `keys create` and `keys update`. */
const KEY_FLAGS = [
  removable(
    'models GLOB,…',
    'models that the key may use, with * and ?, among those of its organisation (default: all of them)',
  ),
  ...LIMIT_FLAGS,
  removable(
    'tags NAME=VALUE,…',
    'tags of requests that name none themselves; the names must be in tags of the configuration',
  ),
  removable('fixed-tags NAME=VALUE,…', 'tags of every request, whatever it names itself'),
  removable('priority CLASS', 'interactive or batch: who goes first where requests wait (default: interactive)'),
  removable('max-wait-ms N', 'how long its requests wait for room at a provider (default: queue.max_wait_ms)'),
  removable(
    'expires WHEN',
    'when the key expires: after 90d, 12h, 30m or 90s, or at a date (2027-01-31, its first moment in ' +
      'UTC) or an RFC 3339 time (default: never)',
  ),
]

const ORGANIZATION_ID = required('id ID', 'id of the organisation')
const ORGANIZATION_FLAGS = [
  removable('models GLOB,…', 'models that the organisation may use, with * and ? (default: all of them)'),
  ...LIMIT_FLAGS,
  removable('weight N', 'its share where requests wait for room at a provider (default: 1)'),
]
const JSON_ROW = json('print {"id", "source", "models", "limits", "weight", "created_at", "state", "warnings"}')

/** Which counter a raise or a reset is about, and why. */
const COUNTER_FLAGS = [
  required('org ID', 'the organisation'),
  required('name NAME', 'the budget'),
  parameter('value VALUE', 'the value whose counter is meant (default: all of the budget)'),
  required('reason TEXT', 'why, for the admin audit'),
]

/** In the order of the help. An entry of a group follows its group. */
export const COMMANDS: readonly CommandEntry[] = [
  command('serve', 'runs the gateway', {
    description: 'Runs the gateway in the foreground.',
    flags: [
      CONFIG,
      parameter('port N', 'listen on this port instead of the configured one; 0 picks a free port'),
      parameter('workers N', 'run N worker processes instead of the configured number'),
    ],
    notes: `
      Signals: SIGTERM and SIGINT shut down after running requests have finished, within drain_seconds; a second signal
      cuts them. SIGHUP checks the configuration and applies it. SIGUSR2 replaces the workers by workers started from
      the program file as it now is. SIGQUIT and SIGUSR1 are ignored.`,
    examples: `
      weir serve  # with ./weir.yaml or /etc/weir/weir.yaml
      weir serve --config /etc/weir/weir.yaml --port 8081  # on another port`,
    failure: 'the gateway cannot start',
  }),
  command('check', 'checks the configuration', {
    description: `
      Reads the configuration as weir serve does and prints every problem on standard error, one per line: the line of
      the file, the path of the value, what is wrong and what to do. Values that are valid and probably not meant, such
      as a price per token, are warnings. Opens no port. If weir runs with the same data_dir, also prints a hint for
      each key whose callers have sent fields within a day that only native mode gives an effect.`,
    flags: [
      CONFIG,
      parameter('strict', 'exit with 1 also if there are only warnings'),
      parameter(
        'providers',
        'also send one smallest request to each target, and print whether the provider is reachable, ' +
          'accepts the credential and knows the model; an image model generates one image, which costs ' +
          'money. Also warn of prices that are far from those that a provider publishes',
      ),
    ],
    examples: `
      weir check  # checks the file that weir serve would read
      weir check --strict --providers  # before a new file goes live
      weir check --config new.yaml && mv new.yaml weir.yaml  # replaces the file only if it is valid`,
    failure: 'the configuration is not valid, or a target fails',
  }),
  command('reload', 'makes the running gateway read its configuration again', {
    description: `
      Asks the gateway that runs with this data_dir to check its configuration and to apply it. Prints what changed,
      one line each: + model gpt-5, ~ price of claude-sonnet, - key ci. If the configuration has problems, prints all
      of them, and the one before stays in force. References to the environment are those of the gateway.`,
    examples: `
      weir reload  # as kill -HUP does, with an answer
      weir check && weir reload  # shows warnings first`,
    failure: 'the configuration was rejected, or no gateway runs with this data_dir',
  }),
  command('health', 'exits 0 if the running gateway is ready', {
    description: `
      Asks the gateway that runs with this data_dir whether every worker accepts requests and the ledger answers, as
      GET /readyz does. For containers without curl.`,
    examples: `
      weir health  # prints ready, or why not
      weir health --config /etc/weir/weir.yaml  # as a health check of a container`,
    failure: 'the gateway is not ready (the reason is on standard error)',
  }),
  command('top', 'shows live figures in the terminal', {
    description: `
      Shows what the console shows, and redraws it every second: requests, streams, errors and tokens a second, what
      needs attention, the targets, the fullest budgets and the last requests. Rates are those of the last 10 seconds,
      shares and percentiles of the last minute. Asks the gateway that runs with this data_dir, and needs no token. q
      or Ctrl-C ends it. In a pipe it prints one frame.`,
    flags: [parameter('once', 'print one frame and end')],
    examples: `
      weir top  # live, until q
      weir top --once  # one look, for a ticket`,
    failure: 'no gateway runs with this data_dir, or this user may not ask it',
  }),
  command('alerts', 'tries the hooks that alerts are posted to', {
    description: 'Tries the hooks of alerts.',
    examples: `
      weir alerts test  # posts one alert
      weir alerts test --help  # its flags`,
  }),
  command('alerts test', 'posts one alert of the type test to each hook', {
    description: `
      Asks the gateway that runs with this data_dir to post one alert of the type test to each hook that it uses, and
      prints delivered, or why a hook did not take it. If no gateway runs, posts it itself. It is posted once, and not
      tried again.`,
    examples: `
      weir alerts test  # prints delivered, or the reason
      weir reload && weir alerts test  # after a change of the hooks`,
    failure: 'the alert was not delivered, or the configuration has no alerts',
  }),
  command('keys', 'creates, changes, lists and revokes API keys', {
    description: `
      Manages API keys beside those of the configuration. They are stored with the ledger; running gateways know a
      change within a second.`,
    examples: `
      weir keys create --org acme --id ci  # prints a new key once
      weir keys list  # all keys and their states`,
  }),
  command('keys create', 'creates a key and prints it once', {
    description: `
      Creates a key and prints it on standard output. The key cannot be shown again: only its hash is stored. Running
      gateways accept it from that moment on. Its limits apply in addition to those of its organisation.`,
    flags: [
      required('org ID', 'organisation of the key, of the configuration or made by weir organizations create'),
      required('id ID', 'name of the key in logs and reports; unique, also among keys that ended in the last 30 days'),
      ...initial(KEY_FLAGS),
    ],
    examples: `
      weir keys create --org acme --id ci --expires 90d  # a key for 90 days
      weir keys create --org acme --id bot --models 'gpt-5-*' --spend-day 5  # a key with a budget`,
    failure: UNREADABLE,
  }),
  command('keys update', 'changes limits, models, tags or expiry of a key', {
    description: `
      Changes a key that weir keys create made. What no flag names stays as it is, and an empty value removes:
      --spend-day '' removes the limit of a day, --tags team= removes one tag. Every worker and gateway applies the
      change within a second; requests that run keep the limits they began with, and what they hold and spend counts.`,
    flags: [KEY_ID, ...KEY_FLAGS],
    examples: `
      weir keys update --id ci --spend-day 10 --requests-per-minute 60  # sets two limits
      weir keys update --id ci --spend-day '' --expires ''  # removes the limit and the expiry`,
    failure:
      'there is no such key, the change is not possible, the ledger cannot be read, or Redis may lose ' + 'the change',
  }),
  command('keys rotate', 'gives a key a new secret and prints it once', {
    description: `
      Gives a key that weir keys create made a new secret, and prints it on standard output. The id stays, and with it
      usage, limits and history. The old secret is accepted until the grace ends; then every worker and gateway rejects
      it within a second. Only one old secret is accepted: a second rotation ends the grace of the first.`,
    flags: [
      KEY_ID,
      parameter(
        'grace DURATION',
        'how long the old secret is accepted, too: 90s, 10m, 24h or 7d (default: not at all)',
      ),
    ],
    examples: `
      weir keys rotate --id ci --grace 24h  # both secrets work for a day
      weir keys rotate --id ci  # after a leak: the old secret is rejected at once`,
    failure: 'there is no such key, it is revoked, the ledger cannot be read, or Redis may lose the change',
  }),
  command('keys list', 'lists the keys, their limits and states', {
    description: `
      Lists the keys of the store and of the configuration, by id, with their last use, what they spent and hold in
      this UTC day, and their limit of a day. The state is active, expired, revoked, disabled (also by its
      organisation), or orphaned: its organisation is no longer in the configuration, and the key is rejected. A key
      that was revoked or has expired is listed for another 30 days; its spend is kept.`,
    flags: [
      ORG,
      json(
        'print {"keys": [{"id", "organization", "source", "shown", "models", "limits", "tags", ' +
          '"created_at", "expires_at", "revoked_at", "grace_until", "last_used_at", ' +
          '"spend_today_micro_usd", "state"}]}; source is store or configuration; a missing value is null',
      ),
      WIDE,
    ],
    examples: `
      weir keys list --org acme  # the keys of one organisation
      weir keys list --json | jq '.keys[] | select(.state == "expired").id'  # for a script`,
    failure: UNREADABLE,
  }),
  command('keys revoke', 'makes every gateway reject a key', {
    description: `
      Revokes a key. Every worker and gateway rejects it within a second. The id of a key that weir keys create made
      cannot be used again for 30 days. A key of the configuration stays revoked until that drops it or sets disabled:
      true.`,
    flags: [KEY_ID],
    examples: `
      weir keys revoke --id ci  # at once, on all nodes
      weir keys revoke --id ci --config /etc/weir/weir.yaml  # with the file of the system`,
    failure: 'there is no such key, the ledger cannot be read, or Redis may lose the change',
  }),
  command('organizations', 'creates, changes, lists and disables organisations', {
    description: `
      Manages organisations beside those of the configuration. They are stored with the ledger, as keys are; running
      gateways know a change within a second. Their keys are made by weir keys create.`,
    examples: `
      weir organizations create --id acme --spend-month 500  # an organisation with a budget
      weir organizations list  # all organisations and their states`,
  }),
  command('organizations create', 'creates an organisation', {
    description: `
      Creates an organisation without keys; weir keys create --org makes keys for it at once. Its limits hold for all
      of its keys together.`,
    flags: [ORGANIZATION_ID, ...initial(ORGANIZATION_FLAGS), JSON_ROW],
    examples: `
      weir organizations create --id acme --spend-month 500  # with a budget
      weir organizations create --id trial --models 'gpt-5-*' --requests-per-minute 60  # with less`,
    failure:
      'the id is used, also by the configuration, a spend limit lacks a price, or the ledger cannot be ' + 'read',
  }),
  command('organizations update', 'changes models or limits of an organisation, or enables it again', {
    description: `
      Changes an organisation that weir organizations create made. What no flag names stays as it is, and an empty
      value removes: --spend-day '' removes the limit of a day. Requests that run keep the limits they began with.`,
    flags: [
      ORGANIZATION_ID,
      ...ORGANIZATION_FLAGS,
      parameter('enable', 'accept its keys again, after weir organizations disable'),
      JSON_ROW,
    ],
    examples: `
      weir organizations update --id acme --spend-month 800  # a larger budget
      weir organizations update --id acme --enable  # after weir organizations disable`,
    failure: 'there is no such organisation, it is in the configuration, or the ledger cannot be read',
  }),
  command('organizations list', 'lists the organisations, their limits and states', {
    description: `
      Lists the organisations of the store and of the configuration, by id. The state is active, disabled, or
      overridden: the configuration has an organisation of the same id, and that one holds.`,
    flags: [
      json(
        'print {"organizations": [{"id", "source", "models", "limits", "created_at", "state"}]}; source ' +
          'is store or configuration; a missing value is null',
      ),
      WIDE,
    ],
    examples: `
      weir organizations list  # as a table
      weir organizations list --json | jq -r '.organizations[].id'  # for a script`,
    failure: UNREADABLE,
  }),
  command('organizations disable', 'makes every gateway reject the keys of an organisation', {
    description: `
      Disables an organisation: every worker and gateway rejects its keys within a second, as disabled ones, and cuts
      their running streams within 10 s. Its usage and budgets are kept. weir organizations update --enable undoes it.`,
    flags: [ORGANIZATION_ID, JSON_ROW],
    examples: `
      weir organizations disable --id acme  # at once, on all nodes
      weir organizations update --id acme --enable  # the way back`,
    failure: 'there is no such organisation, it is in the configuration, or the ledger cannot be read',
  }),
  command('budgets', 'lists the counters of budgets, raises and resets them', {
    description: `
      Lists the counters of the budgets of the configuration: what is used and held of each limit, and when it renews.
      Those that refuse requests come first, then the fullest.`,
    flags: [
      ORG,
      ...COUNTER_PARAMETERS,
      parameter('search WORDS', 'only rows whose organisation, budget, value or limit has each of these words'),
      json(
        'print {"budgets": [{"organization", "name", "value", "limit", "unit", "amount", "used", "held", "refusing", ' +
          '"renews_at", "raise"}]}; money is in micro-dollars',
      ),
      WIDE,
    ],
    examples: `
      weir budgets --org acme --name person --value ann  # what is left for a person
      weir budgets --json | jq '.budgets[] | select(.refusing)'  # for a script`,
    failure: UNREADABLE,
  }),
  command('budgets raise', 'gives a budget other limits until a time', {
    description: `
      Gives a budget, or one of its counters, new limits until a time, on every gateway within a second. They replace
      those of the configuration; limits that are not named stay. A raise ends by itself. It is in the admin audit.`,
    flags: [
      ...COUNTER_FLAGS,
      ...LIMIT_FLAGS,
      removable('spend-hour USD', 'the most in an hour'),
      removable('spend-week USD', 'the most in a week'),
      required('until TIME', 'when it ends: after 12h or 90m, or at a date or an RFC 3339 time'),
      json('print {"id", "organization", "name", "value", "limits", "until", "reason", "actor"}'),
    ],
    examples: `
      weir budgets raise --org acme --name person --value ann --spend-day 60 --until 12h --reason release
        # a larger day for a person
      weir budgets raise --org acme --name pool --spend-month 900 --until 2027-02-01 --reason fair  # a larger month`,
    failure: 'there is no such budget, or the ledger cannot be read',
  }),
  command('budgets end', 'ends a raise', {
    description: 'Ends a raise before its time. The id is that which weir budgets raise printed.',
    flags: [required('id ID', 'id of the raise')],
    examples: `
      weir budgets end --id 8f5c…  # on every gateway within a second
      weir budgets --json | jq -r '.budgets[].raise.id'  # the ids of raises that hold`,
    failure: 'there is no such raise, or the ledger cannot be read',
  }),
  command('budgets reset', 'lets a counter begin anew', {
    description: `
      Lets a counter begin anew: what it has spent in its present windows counts no more. Usage and the audit keep it.
      If a clock was ahead, windows in the future go back to the present; with the embedded ledger, stop the gateway
      first.`,
    flags: [...COUNTER_FLAGS],
    examples: `
      weir budgets reset --org acme --name person --value ann --reason "a loop of an agent"  # after a mistake
      weir budgets reset --org acme --name pool --reason test  # a budget with one counter`,
    failure: 'there is no such budget, or the ledger cannot be read',
  }),
  command('usage', 'shows requests, tokens and spend', {
    description: `
      Prints requests, tokens and spend from the ledger. Requests that were rejected or reached no provider are not
      included. Input tokens include cached ones. A request counts on the UTC day on which it was admitted. After 400
      days usage is kept by month only and counts on the first day of its month: a range that begins or ends within
      such a month includes all of the month or nothing of it. Hours are kept for 31 days.`,
    flags: [
      ...USAGE_PARAMETERS,
      json('print JSON; cost is in micro-dollars'),
      parameter('csv', 'print CSV with the columns of the JSON, without the total'),
      WIDE,
    ],
    examples: `
      weir usage  # this month, by model
      weir usage --by org,model  # each model of each organisation
      weir usage --by provider,hour --since 2026-11-22  # each hour of a day, by provider
      weir usage --org acme --since 2026-11-01 --by day --csv  # for a spreadsheet`,
    failure: UNREADABLE,
  }),
  command('audit', 'shows the audit trail, one line per request', {
    description: `
      Prints the audit trail: one line per request that was admitted and has ended, with its time, organisation, key,
      model, tokens, cost and outcome. Requests that a limit rejected are not included. The lines of one organisation
      are in the order in which the requests ended.`,
    flags: [
      ...AUDIT_PARAMETERS,
      parameter(
        'admin',
        'print the admin audit instead: one line for each change by weir keys, the admin API or a reload, with time, ' +
          'source (cli, api, config), action, target and details; --since, --until and the flags below apply',
      ),
      parameter('limit N', 'the last N lines; 0 prints all of them (default: 100)'),
      parameter('follow', 'go on and print lines as they are added, until Ctrl-C'),
      json('print one JSON object per line; cost is in micro-dollars, a missing value is null'),
      parameter('csv', 'print CSV with the columns of the JSON'),
      WIDE,
    ],
    notes: `
      The column ended shows how the ledger learned of the end: settled; late (settled after the lease had expired);
      direct (settled although the ledger had lost the reservation, or could not be reached to make one); lost (not
      settled: the gateway died); cancelled (the request was never sent); withdrawn (the same, after it had been lost).
      Lines are kept for audit.keep_days (90 by default). Redis keeps at most the last 100,000 requests of an
      organisation, and 1 GiB for all organisations together.`,
    examples: `
      weir audit --key ci  # what a key did today
      weir audit --follow --outcome provider_cut  # watches for streams that providers cut
      weir audit --admin  # who changed keys and configuration
      weir audit --request req_01a200e36f85717699232da6a40dcb32 --json  # one request`,
    failure: UNREADABLE,
  }),
  command('reconcile', "compares usage with a provider's bill", {
    description: `
      Compares the audit trail with the bills of providers, by UTC day and model: tokens of each class and dollars,
      ours, theirs and the difference (ours less theirs), and the most likely cause of what differs. Reads the JSON of
      OpenAI's usage and costs APIs and of Anthropic's usage and cost reports, grouped by model, and CSV with the
      columns date, model, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens and cost, whose input
      includes the cached tokens. Models are matched by the names of targets, then by public names.`,
    flags: [
      parameter('from FILE', 'a bill: pages of JSON, or CSV; may be given several times', {
        isRequired: true,
        isRepeatable: true,
      }),
      parameter('since DATE', 'from this UTC day on (default: the first day of the bills)'),
      parameter('until DATE', 'before this UTC day (default: the day after the last one of the bills)'),
      parameter('tolerance SHARE', 'the difference that is no difference, as 1% or 0.01 (default: 1%)'),
      WIDE,
      json('print JSON; "cost" is in dollars, and null is what the bills do not have'),
    ],
    examples: `
      weir reconcile --from usage.json --from costs.json  # usage and costs of OpenAI's APIs
      weir reconcile --from bill.csv --since 2026-11-01 --until 2026-12-01 --json  # one month of a bill`,
    failure: 'something differs by more than the tolerance, or a file or the ledger cannot be read',
  }),
  command('prices', 'compares the prices of the configuration with a price list', {
    description: 'Compares the prices of the configuration with a price list, and writes those of the list into it.',
    examples: `
      weir prices diff --from prices.json  # prints what differs
      weir prices diff --help  # its flags`,
  }),
  command('prices diff', 'prints each price that a price list has otherwise', {
    description: `
      Reads a price list: LiteLLM's JSON of model prices, the JSON of OpenRouter's /models, or YAML of models[].price as
      in a configuration. Prints one line for each price of the configuration that differs, the dearest first (the
      list's price divided by that of the configuration), and the tiers and lengths that only the list has. What the
      list does not state is not compared. Models are matched by the names of their targets, then by their public name
      and aliases; those that are not in the list are on standard error.`,
    flags: [
      required('from FILE', 'the price list'),
      parameter('model GLOB', 'only models whose public name or alias matches, with * and ? (default: all of them)'),
      parameter(
        'apply',
        'write the prices of the list into the configuration file, and leave everything else of it, comments ' +
          'included, byte for byte; weir reload puts them into force',
      ),
    ],
    examples: `
      weir prices diff --from model_prices_and_context_window.json  # with LiteLLM's list
      weir prices diff --from prices.yaml --model 'gpt-*' --apply && weir reload  # takes the prices over`,
    failure: 'a price differs (with --apply: could not be written), or a file cannot be read',
  }),
  command('targets', 'forgets what was learned of a target', {
    description: `
      A target that rejects a field of weir's requests, or misses one, gets them without or with it from then on. weir
      explain and GET /api/targets show what was learned.`,
    examples: `
      weir targets forget openai/gpt-5  # asks the target again as at first
      weir targets forget --help  # its flags`,
  }),
  command('targets forget', 'forgets what was learned of how requests to a target are to be written', {
    description: `
      Asks the gateway that runs with this data_dir to forget it: all of its workers, and with Redis all other nodes.
      The next request is written as if the target had never rejected one.`,
    argument: { name: 'PROVIDER/MODEL', about: 'a target of the configuration, as GET /api/targets lists it' },
    examples: `
      weir targets forget openai/gpt-5  # prints what was forgotten
      weir targets forget vllm/Qwen/Qwen3-32B  # of a model whose name has a slash`,
    failure: 'no gateway runs, or it has no such target',
  }),
  command('nodes', 'lists the nodes that share a Redis, and asks things of them', {
    description: `
      Prints what each node is and does, one line a node, and where nodes differ: a section of the configuration, as
      models[3].price, or the version, with the nodes that have it otherwise than most. If no gateway runs here, reads
      the Redis of the configuration. With the embedded ledger there is one node.`,
    flags: [json('the same as GET /api/nodes answers'), WIDE],
    examples: `
      weir nodes  # all of them
      weir nodes --json  # for programs`,
    failure: 'neither a gateway runs here nor Redis answers',
  }),
  command('nodes drain', 'lets a node finish what runs, and end', {
    description: `
      The node does what it does at SIGTERM: it takes no new requests, those that run may finish within drain_seconds,
      and it ends with exit code 0. It writes into the admin audit who asked for it.`,
    argument: { name: 'NODE', about: 'its id, or its name if no other node has it' },
    examples: `
      weir nodes drain gateway-2  # before its machine is taken away
      weir nodes drain --help  # its flags`,
    failure: 'there is no such node, or it does not answer',
  }),
  command('nodes reload', 'makes a node, or every node, read its configuration again', {
    description: `
      Each node reads its own file, puts it into force as a whole or not at all, and writes into the admin audit who
      asked for it. Prints what changed on each.`,
    argument: { name: 'NODE', about: 'its id, or its name if no other node has it', isOptional: true },
    flags: [parameter('all', 'every node')],
    examples: `
      weir nodes reload gateway-2  # one node
      weir nodes reload --all  # every node, at the same time`,
    failure: 'a node does not answer, or it rejects its configuration',
  }),
  command('ledger', 'resets budgets that a wrong clock renewed too early', {
    description: 'Repairs the ledger.',
    examples: `
      weir ledger reset-window --org acme  # moves budget windows back
      weir ledger reset-window --help  # its flags`,
  }),
  command('ledger reset-window', 'moves back budget windows that a wrong clock opened too early', {
    description: `
      Budgets never return to an earlier window. If a clock was ahead, they would not renew until the true time has
      caught up. This command moves the windows of an organisation, its keys and its named budgets back to the present
      hour, day, week and month, with the spend that weir usage reports for them. With the embedded ledger, stop the
      gateway first. With Redis it may run; requests that are in flight at that moment count in the total budget only.`,
    flags: [required('org ID', 'the organisation')],
    examples: `
      weir ledger reset-window --org acme  # prints how many windows moved
      weir ledger reset-window --org acme --config /etc/weir/weir.yaml  # with the file of the system`,
    failure: 'the ledger cannot be used',
  }),
  command('backup', 'copies what data_dir must not lose, while weir serves', {
    argument: { name: 'DIR', about: 'a directory that is empty or does not exist; can be used as data_dir' },
    description: `
      Makes a consistent copy of data_dir in DIR: the ledger with its journal, created keys, the outbox, and the
      compaction key. The gateway may run. To restore, stop the gateway and put the copy in place of data_dir.`,
    examples: `
      weir backup /var/backups/weir-$(date +%F)  # one copy a day
      weir backup /mnt/weir --config /etc/weir/weir.yaml  # with the file of the system`,
    failure: 'no backup was made',
  }),
  command('import', 'makes a weir.yaml from the configuration of another gateway', {
    description: 'Prints a configuration of weir made from that of another gateway.',
    examples: `
      weir import litellm config.yaml > weir.yaml  # from a LiteLLM proxy
      weir import litellm --help  # what is carried over`,
  }),
  command('import litellm', 'makes a weir.yaml from the configuration of a LiteLLM proxy', {
    argument: { name: 'FILE', about: 'the config.yaml of the LiteLLM proxy' },
    description: `
      Prints a weir.yaml with the models, providers, credentials, fallbacks, aliases, prices, alerts and the master key
      of a LiteLLM proxy. os.environ/NAME becomes \${NAME}. What is lost, what is assumed and what is to do is one line
      each on standard error. The result passes weir check when the variables are set.

      LiteLLM stores the SHA-256 of its keys, as weir does: with a dump of its table LiteLLM_VerificationToken (CSV or
      JSON), callers keep their keys. Teams become organisations. --keys lists the keys; --apply-keys writes them to
      the key store of --config, with their limits, their expiry and what they have spent in the present window of
      their budget, and may be run again.`,
    flags: [
      parameter('prices FILE', "LiteLLM's model_prices_and_context_window.json"),
      parameter('keys FILE', 'a dump of LiteLLM_VerificationToken: CSV with headings, or JSON'),
      parameter('teams FILE', 'a dump of LiteLLM_TeamTable, for names, models, limits and spend of teams'),
      parameter('budgets FILE', 'a dump of LiteLLM_BudgetTable, for the budgets that the others name'),
      parameter('users FILE', 'a dump of LiteLLM_UserTable, for the budgets of users'),
      parameter('tags FILE', 'a dump of LiteLLM_TagTable, for the budgets of tags'),
      parameter('apply-keys', 'write the keys to the key store of the configuration'),
    ],
    examples: `
      weir import litellm config.yaml --keys keys.csv 2> notes.txt > weir.yaml  # the new file
      weir import litellm config.yaml --keys keys.csv --apply-keys --config weir.yaml > /dev/null  # then the keys`,
    failure: 'the file is no configuration of LiteLLM, or has nothing that weir can serve',
  }),
  command('schema', 'prints the JSON Schema of the configuration', {
    description: 'Prints the JSON Schema of the configuration file, for editors and other programs.',
    examples: `
      weir schema > weir.schema.json  # for an editor
      weir schema | jq '.properties | keys'  # the sections of the file`,
  }),
  command('explain', 'shows what would happen to a request', {
    description: `
      Shows what would happen to a request of this key for this model: which rule allows or denies it, the candidates
      in the order in which they would be tried, why others are excluded, which targets rest, prices, and what is left
      of each limit, those of providers included. The second line is what the caller would get now: an error word for
      word, with limits checked as for a real request, the target that is asked first, or that it waits for room. The
      exit code is 0 for all.`,
    flags: [...EXPLAIN_PARAMETERS, json('print JSON; money is in micro-dollars, and "lines" has the text')],
    examples: `
      weir explain --key ci --model gpt-5-mini  # who may use it, and what is left of the budgets
      weir explain --key ci --model auto --images --tokens 90000  # a large request with images`,
    failure: 'the key is unknown, or the configuration cannot be read',
  }),
  command('version', 'prints the version of weir and of Bun', {
    description: 'Prints the version, the commit that it was built from, and the version of Bun.',
    flags: [],
    examples: `
      weir version  # one line
      weir --version  # the same`,
  }),
  command('help', 'shows the commands, or the flags of one', {
    argument: { name: 'COMMAND', about: 'a command, such as usage or keys create', isOptional: true },
    description: 'Shows the list of commands, or what weir COMMAND --help shows.',
    flags: [],
    examples: `
      weir help  # the list of commands
      weir help keys create  # the flags of one`,
  }),
]

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
