/** The completion of bash, from the table of commands: commands, flags, files, and the values of flags with choices. */

import { COMMANDS, type CommandEntry } from '../src/cli/command-table.ts'
import type { Parameter } from '../src/reports/parameters.ts'

/** Values that are paths. */
const FILES = ['FILE', 'DIR']

export function bashCompletion(): string {
  const names = COMMANDS.map(({ name }) => name)
  const tops = names.filter((name) => !name.includes(' '))
  return `# Completion of weir(1) for bash.
_weir() {
  local word=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]}
  local command=\${COMP_WORDS[1]} names flags
  if [ "$COMP_CWORD" -gt 2 ] || [[ $word == -* && $COMP_CWORD -eq 2 ]]; then
    case "\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in
      ${names
        .filter((name) => name.includes(' '))
        .map(quote)
        .join(' | ')}) command="\${COMP_WORDS[1]} \${COMP_WORDS[2]}" ;;
    esac
  fi
  case "$command $previous" in
${valued().join('\n')}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    names=${quote(`${tops.join(' ')} --help --version`)}
  else
    case "$command" in
${COMMANDS.map(known).join('\n')}
    esac
  fi
  COMPREPLY=($(compgen -W "$names $flags" -- "$word"))
}
complete -F _weir weir
`
}

/** What follows a flag that takes a value. */
function valued(): readonly string[] {
  return COMMANDS.flatMap(({ name, flags }) =>
    flags
      .filter(({ value }) => value !== undefined)
      .map((flag) => `    ${quote(`${name} --${flag.name}`)}) ${choices(flag)}; return ;;`),
  )
}

function choices({ value = '', choices }: Parameter): string {
  if (choices !== undefined) return `COMPREPLY=($(compgen -W ${quote(choices.join(' '))} -- "$word"))`
  return FILES.includes(value) ? 'COMPREPLY=($(compgen -f -- "$word"))' : 'COMPREPLY=()'
}

/** The actions and flags of one command. */
function known({ name, flags, argument }: CommandEntry): string {
  const actions = COMMANDS.filter((each) => each.name.startsWith(`${name} `)).map((each) =>
    each.name.slice(name.length + 1),
  )
  const words = [...flags.map((flag) => `--${flag.name}`), '--help']
  // The argument of `weir help` is another command.
  if (argument?.name === 'COMMAND') {
    const commands = COMMANDS.filter((each) => !each.name.includes(' ')).map((each) => each.name)
    return `      ${quote(name)}) names=${quote(commands.join(' '))} flags=${quote(words.join(' '))} ;;`
  }
  const file = argument !== undefined && FILES.includes(argument.name) ? ' $(compgen -f -- "$word")' : ''
  return `      ${quote(name)}) names="${actions.join(' ')}${file}" flags=${quote(words.join(' '))} ;;`
}

function quote(words: string): string {
  return `'${words}'`
}
