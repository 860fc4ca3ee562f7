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
