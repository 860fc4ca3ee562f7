/** The table of commands: those that read the ledger, or repair it. */

import { AUDIT_PARAMETERS, USAGE_PARAMETERS } from '../reports/parameters.ts'
import { CONFIG, type CommandEntry, JSON_FLAG, UNREADABLE, WIDE } from './command-entry.ts'

export const REPORT_ENTRIES: readonly CommandEntry[] = [
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
      ...USAGE_PARAMETERS,
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
    about: 'shows the audit trail, one line per request',
    description: [
      'Prints the audit trail: one line per request that was admitted and has ended, with its time, organisation, ' +
        'key, model, tokens, cost and outcome. Requests that a limit rejected are not included. The lines of one ' +
        'organisation are in the order in which the requests ended.',
    ],
    flags: [
      ...AUDIT_PARAMETERS,
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
