/** The table of commands: those that make files. */

import { CONFIG, type CommandEntry } from './command-entry.ts'

export const FILE_ENTRIES: readonly CommandEntry[] = [
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
      'Prints a weir.yaml with the models, providers, credentials, fallbacks, aliases, prices, alerts and the master ' +
        `key of a LiteLLM proxy. os.environ/NAME becomes \${NAME}. What is lost, what is assumed and what is to do ` +
        'is one line each on standard error. The result passes weir check when the variables are set.',
      'LiteLLM stores the SHA-256 of its keys, as weir does: with a dump of its table LiteLLM_VerificationToken ' +
        '(CSV or JSON), callers keep their keys. Teams become organisations. --keys lists the keys; --apply-keys ' +
        'writes them to the key store of --config, with their limits, their expiry and what they have spent in the ' +
        'present window of their budget, and may be run again.',
    ],
    flags: [
      { name: 'prices', value: 'FILE', about: "LiteLLM's model_prices_and_context_window.json" },
      { name: 'keys', value: 'FILE', about: 'a dump of LiteLLM_VerificationToken: CSV with headings, or JSON' },
      { name: 'teams', value: 'FILE', about: 'a dump of LiteLLM_TeamTable, for names, limits and models of teams' },
      { name: 'apply-keys', about: 'write the keys to the key store of the configuration' },
      CONFIG,
    ],
    examples: [
      { run: 'weir import litellm config.yaml --keys keys.csv 2> notes.txt > weir.yaml', about: 'the new file' },
      {
        run: 'weir import litellm config.yaml --keys keys.csv --apply-keys --config weir.yaml > /dev/null',
        about: 'then the keys',
      },
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
