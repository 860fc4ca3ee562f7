/** The table of commands: those that run, check and reload the gateway, and show how it is. */

import { CONFIG, type CommandEntry } from './command-entry.ts'

export const GATEWAY_ENTRIES: readonly CommandEntry[] = [
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
        'what needs attention, the targets, the fullest budgets and the last requests. Rates are those of the last ' +
        '10 seconds, shares and percentiles of the last minute. Asks the gateway that runs with this data_dir, and ' +
        'needs no token. q or Ctrl-C ends it. In a pipe it prints one frame.',
    ],
    flags: [{ name: 'once', about: 'print one frame and end' }, CONFIG],
    examples: [
      { run: 'weir top', about: 'live, until q' },
      { run: 'weir top --once', about: 'one look, for a ticket' },
    ],
    failure: 'no gateway runs with this data_dir, or this user may not ask it',
  },
  {
    name: 'alerts',
    about: 'tries the hooks that alerts are posted to',
    description: ['Tries the hooks of alerts.'],
    flags: [CONFIG],
    examples: [
      { run: 'weir alerts test', about: 'posts one alert' },
      { run: 'weir alerts test --help', about: 'its flags' },
    ],
  },
  {
    name: 'alerts test',
    about: 'posts one alert of the type test to each hook',
    description: [
      'Asks the gateway that runs with this data_dir to post one alert of the type test to each hook that it uses, ' +
        'and prints delivered, or why a hook did not take it. If no gateway runs, posts it itself. It is posted ' +
        'once, and not tried again.',
    ],
    flags: [CONFIG],
    examples: [
      { run: 'weir alerts test', about: 'prints delivered, or the reason' },
      { run: 'weir reload && weir alerts test', about: 'after a change of the hooks' },
    ],
    failure: 'the alert was not delivered, or the configuration has no alerts',
  },
]
