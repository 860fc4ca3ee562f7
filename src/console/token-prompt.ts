/** Asks for the token of the admin API. */

import { keepToken } from './api-client.ts'
import { element, StateMark } from './elements.ts'

/** Resolves when a token was entered. It is not checked here: the next request shows whether it is right. */
export function promptForToken(wasRejected: boolean): Promise<void> {
  const input = element('input', {
    id: 'token',
    type: 'password',
    autocomplete: 'current-password',
    required: '',
    spellcheck: 'false',
    ...(wasRejected ? { 'aria-invalid': 'true', 'aria-describedby': 'token-wrong' } : {}),
  })
  const wrong = new StateMark('wrong')
  wrong.node.id = 'token-wrong'
  wrong.node.hidden = !wasRejected
  wrong.show('bad', 'This token was rejected.')
  const form = element(
    'form',
    { method: 'dialog' },
    element('h2', { id: 'token-title' }, 'Admin token'),
    element(
      'p',
      { class: 'soft' },
      'It is the value of admin.token in the configuration. This tab forgets it when it closes.',
    ),
    element('div', {}, element('label', { for: 'token' }, 'Token'), input),
    wrong.node,
    element('button', { class: 'button main', type: 'submit' }, 'Open the console'),
  )
  const dialog = element('dialog', { class: 'token', 'aria-labelledby': 'token-title' }, form)
  // Without a token there is nothing to see: Escape does not close it.
  dialog.addEventListener('cancel', (event) => event.preventDefault())
  document.body.append(dialog)
  dialog.showModal()
  input.focus()
  return new Promise((resolve) => {
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      keepToken(input.value.trim())
      dialog.close()
      dialog.remove()
      resolve()
    })
  })
}
