/** What an editor, a merge or a deployment does to a configuration file, for tests of commands. */

type Break = (text: string) => string

/** The ledger can still be read. With a part of the problem that `weir check` prints. */
export const MISTAKES: Readonly<Record<string, readonly [Break, string]>> = {
  'an unknown key': [above('ownedby: x'), 'ownedby: unknown key (did you mean "owned_by"?)'],
  'a mistyped value': [above('drain_seconds: soon'), 'drain_seconds: must be a whole number'],
  'an unset variable': [above(`owned_by: "\${UNSET_OWNER}"`), `"\${UNSET_OWNER}" is not set`],
  'a file that cannot be read': [above(`owned_by: "\${file:/nowhere/x}"`), 'there is no such file'],
  'a bracket without its partner': [above('auto: { candidates: [small'), 'is not closed'],
  'a tab': [above('auto:\n\tcandidates: [small]'), 'tabs are not allowed'],
  'a quote without its partner': [(text) => `${text.trimEnd()}\n${indentOf(text)}owned_by: "x\n`, 'not closed'],
  'marks of a merge': [(text) => `<<<<<<< HEAD\n${text}\n>>>>>>> mine\n`, 'line 1'],
  'a model without a provider': [(text) => text.replaceAll('provider: ', 'provider: no-'), 'no provider is named'],
  'a key of an organisation that no schema has': [(text) => text.replace('id: acme', 'id: acme, kyes: 1'), 'kyes'],
}

/** The ledger cannot be read for certain: only a running gateway knows it. */
export const LOST: Readonly<Record<string, Break>> = {
  'an empty file': () => '',
  'a truncated file': (text) => text.slice(0, 10),
  'no text at all': () => '\u0000\u00ff',
  'a mistyped data_dir': (text) => text.replace(/^data_dir:/m, 'data_dri:'),
  'an unset data_dir': (text) => text.replace(/^data_dir: .*/m, `data_dir: "\${UNSET_DATA}"`),
  'a data_dir that is not YAML': (text) => text.replace(/^data_dir: /m, 'data_dir: "'),
  'two of data_dir': (text) => `data_dir: ./other\n${text}`,
  'two of data_dir, and no YAML': (text) => `data_dir: ./other\n${text}owned_by: [\n`,
  'a data_dir in another group': (text) => text.replace(/^data_dir:/m, 'listen:\n  data_dir:'),
  'a ledger without an address': (text) => text.replace('embedded', '{ redsi: "redis://127.0.0.1:9/0" }'),
  'the file of another gateway': () => 'model_list: []\n',
}

function above(line: string): Break {
  return (text) => `${line.replaceAll(/^/gm, indentOf(text))}\n${text}`
}

function indentOf(text: string): string {
  return /^ */.exec(text)?.[0] ?? ''
}
