// The page of a run that goes on asks for itself again. What is open stays open; while somebody looks closer or searches, it stands.
const isLookedAt = () => document.querySelector('text.zoom') || [...document.querySelectorAll('input.search')].some(one => one.value);
const named = details => details.querySelector('summary').textContent.split(':')[0].trim();
const TRIES = 10;
let failed = 0;
const again = async () => {
  const said = document.getElementById('live');
  try {
    const answer = await fetch('/', { cache: 'no-store' });
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    if (!isLookedAt()) {
      const open = new Set([...document.querySelectorAll('details[open]')].map(named));
      document.querySelector('main').replaceWith(next.querySelector('main'));
      document.title = next.title;
      document.querySelectorAll('details').forEach(one => { if (open.has(named(one))) one.open = true; });
      prepare();
    }
    failed = 0;
    setTimeout(again, 1000);
  } catch {
    failed += 1;
    if (failed < TRIES) setTimeout(again, 1000);
    else if (said) {
      said.textContent = `The run is over, and this page is no longer updated. Its final page: ${said.dataset.kept}`;
      const runs = [...document.querySelectorAll('p.word, p.counts')].find(one => one.textContent.startsWith('Running'));
      if (runs) runs.textContent = runs.textContent.replace('Running', 'Over; last seen');
    }
  }
};
setTimeout(again, 1000);
