/**
 * The page of the reference works without this script. It shows one language of the examples at a time, filters the
 * contents, copies examples, and marks the section that is read.
 */

const LANGUAGE = 'weir.reference.language'

/** Examples: a tab for each language; the choice holds for the whole page and for the next visit. */
function showLanguages() {
  const groups = [...document.querySelectorAll('[data-tabs]')]
  const select = (language) => {
    for (const tab of document.querySelectorAll('.tabs button')) {
      const isSelected = tab.dataset.language === language
      tab.setAttribute('aria-selected', String(isSelected))
      tab.tabIndex = isSelected ? 0 : -1
    }
    for (const panel of document.querySelectorAll('[data-panel]')) panel.hidden = panel.dataset.panel !== language
  }
  for (const [at, group] of groups.entries()) group.prepend(tabsOf(group, at, select))
  const stored = localStorage.getItem(LANGUAGE)
  const known = ['Shell', 'Python', 'TypeScript']
  select(known.includes(stored) ? stored : known[0])
}

const TITLES = { Shell: 'curl' }

function tabsOf(group, at, select) {
  const list = document.createElement('div')
  list.className = 'tabs'
  list.setAttribute('role', 'tablist')
  list.setAttribute('aria-label', 'Language of the examples')
  for (const panel of group.querySelectorAll('[data-panel]')) {
    const language = panel.dataset.panel
    const tab = document.createElement('button')
    tab.type = 'button'
    tab.id = `tab-${at}-${language}`
    tab.dataset.language = language
    tab.textContent = TITLES[language] ?? language
    tab.setAttribute('role', 'tab')
    panel.id = `panel-${at}-${language}`
    panel.setAttribute('role', 'tabpanel')
    panel.setAttribute('aria-labelledby', tab.id)
    tab.setAttribute('aria-controls', panel.id)
    tab.addEventListener('click', () => choose(tab, select))
    list.append(tab)
  }
  list.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    if (step === undefined) return
    const tabs = [...list.children]
    const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length]
    choose(next, select)
    next.focus()
  })
  return list
}

/** Examples have different heights: what is read stays in its place. */
function choose(tab, select) {
  const before = tab.getBoundingClientRect().top
  localStorage.setItem(LANGUAGE, tab.dataset.language)
  select(tab.dataset.language)
  scrollBy(0, tab.getBoundingClientRect().top - before)
}

/** More fields than these are not listed: the words are of no use then. */
const FIELDS_MAX = 40

/** Fields: those of all schemas and operations whose name has all the words, under the contents. */
function fieldsFinder() {
  const group = document.getElementById('found-fields')
  const fields = [...document.querySelectorAll('main .field')].map((field) => {
    const name = field.querySelector('dt code').textContent
    return { field, name, text: name.toLowerCase(), section: field.closest('section[id]') }
  })
  return (words) => {
    const found = words.length === 0 ? [] : fields.filter(({ text }) => words.every((word) => text.includes(word)))
    group.querySelector('ul').replaceChildren(...found.slice(0, FIELDS_MAX).map(fieldEntry))
    group.hidden = found.length === 0
  }
}

function fieldEntry({ field, name, section }) {
  const place = document.createElement('span')
  place.className = 'found-in'
  place.textContent = ` in ${section.querySelector('h3, h4')?.firstChild.textContent.trim() || section.id}`
  const link = document.createElement('a')
  link.href = `#${section.id}`
  link.append(name, place)
  // After the browser has gone to the section.
  link.addEventListener('click', () => setTimeout(() => showField(field)))
  const entry = document.createElement('li')
  entry.append(link)
  return entry
}

function showField(field) {
  for (const other of document.querySelectorAll('.field.found')) other.classList.remove('found')
  for (let around = field.closest('details'); around; around = around.parentElement.closest('details'))
    around.open = true
  field.classList.add('found')
  field.scrollIntoView()
}

/** Contents: only entries with all the words stay; groups with an entry stay open. Fields with the words are added. */
function filterContents() {
  const input = document.getElementById('filter')
  const entries = [...document.querySelectorAll('.tree ul li')]
  const findFields = fieldsFinder()
  input.addEventListener('input', () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean)
    findFields(words)
    for (const entry of entries) {
      const text = entry.textContent.toLowerCase()
      entry.hidden = !words.every((word) => text.includes(word))
    }
    for (const group of document.querySelectorAll('.tree > li:not(#found-fields)')) {
      const isEmpty = group.querySelector('ul li:not([hidden])') === null
      group.hidden = words.length > 0 && isEmpty
      for (const names of group.querySelectorAll('details')) names.open = words.length > 0
    }
  })
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target instanceof HTMLInputElement
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    input.focus()
  })
}

/** Copying needs a page that the browser trusts: HTTPS, or this machine. */
function addCopyButtons() {
  if (navigator.clipboard === undefined) return
  for (const figure of document.querySelectorAll('figure')) {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'copy'
    button.textContent = 'Copy'
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(figure.querySelector('code').textContent)
      button.textContent = 'Copied'
      setTimeout(() => {
        button.textContent = 'Copy'
      }, 2000)
    })
    figure.querySelector('figcaption').append(button)
  }
}

/** Marks the entry of the section at the top of the window. */
function markReading() {
  const entries = new Map([...document.querySelectorAll('.tree a')].map((link) => [link.hash.slice(1), link]))
  const sections = [...document.querySelectorAll('main section[id]')]
  let current
  const mark = () => {
    const top = sections.findLast((section) => section.getBoundingClientRect().top < 120)
    const entry = entries.get(top?.id ?? 'overview')
    if (entry === current) return
    current?.removeAttribute('aria-current')
    entry?.setAttribute('aria-current', 'true')
    current = entry
  }
  let isDue = false
  addEventListener('scroll', () => {
    if (isDue) return
    isDue = true
    requestAnimationFrame(() => {
      isDue = false
      mark()
    })
  })
  mark()
}

/** On a phone the contents are closed at first, and close when an entry is chosen. */
function closeContentsOnPhones() {
  const menu = document.querySelector('.contents-menu')
  const phone = matchMedia('(max-width: 52rem)')
  const fit = () => {
    menu.open = !phone.matches
  }
  fit()
  phone.addEventListener('change', fit)
  menu.addEventListener('click', (event) => {
    if (phone.matches && event.target.closest('a') !== null) menu.open = false
  })
}

closeContentsOnPhones()
showLanguages()
filterContents()
addCopyButtons()
markReading()
