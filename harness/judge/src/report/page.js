// Searching in long tables, and looking closer at charts: drag over one to see that while in all charts of the same run, click twice to
// see the whole again. Without this script the page says all that it has to say.
const prepare = () => {
  for (const table of document.querySelectorAll('table.searched')) {
    const field = document.createElement('input');
    field.type = 'search'; field.className = 'search'; field.placeholder = 'search by name';
    field.setAttribute('aria-label', 'search by name');
    field.oninput = () => {
      for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(field.value.toLowerCase());
    };
    table.closest('.frame').before(field);
  }
  const frames = [...document.querySelectorAll('.frame')];
  const measure = () => frames.forEach(one => one.classList.toggle('scrolls', one.scrollWidth > one.clientWidth));
  measure(); window.onresize = measure;
  document.querySelectorAll('details').forEach(one => { one.ontoggle = measure; });
  const charts = [...document.querySelectorAll('svg.chart[data-from]')];
  const told = nanos => nanos >= 1e9 ? +(nanos / 1e9).toFixed(3) + ' s' : +(nanos / 1e6).toFixed(3) + ' ms';
  const look = (chart, from, until) => {
    const [begin, end] = [+chart.dataset.from, +chart.dataset.until], plot = chart.querySelector('svg.plot');
    const height = plot.viewBox.baseVal.height, per = 7200 / (end - begin);
    plot.setAttribute('viewBox', `${(from - begin) * per} 0 ${(until - from) * per} ${height}`);
    for (const text of chart.querySelectorAll('text[data-at]')) {
      const x = (+text.dataset.at - from) / (until - from);
      text.setAttribute('x', 100 * x + '%'); text.style.display = x < 0 || x > 1 ? 'none' : '';
    }
    chart.querySelectorAll('text.zoom').forEach(one => one.remove());
    if (from === begin && until === end) return;
    const words = document.createElementNS(chart.namespaceURI, 'text');
    words.setAttribute('class', 'zoom'); words.setAttribute('x', '50%'); words.setAttribute('y', 24);
    words.setAttribute('text-anchor', 'middle');
    words.textContent = `${told(from)} to ${told(until)}; double-click for the whole run`;
    chart.append(words);
  };
  for (const chart of charts) {
    const same = charts.filter(one => one.dataset.from === chart.dataset.from && one.dataset.until === chart.dataset.until);
    const [begin, end] = [+chart.dataset.from, +chart.dataset.until];
    let view = [begin, end], down = null;
    const at = event => {
      const box = chart.getBoundingClientRect(), [from, until] = chart.view || view;
      const left = parseFloat(getComputedStyle(chart).paddingLeft), part = (event.clientX - box.left - left) / (box.width - left);
      return from + Math.min(1, Math.max(0, part)) * (until - from);
    };
    const all = (from, until) => same.forEach(one => { one.view = [from, until]; look(one, from, until); });
    chart.onpointerdown = event => { down = event.pointerType === 'touch' ? null : at(event); };
    chart.onpointerup = event => {
      if (down === null) return;
      const [from, until] = [Math.min(down, at(event)), Math.max(down, at(event))];
      down = null;
      if (until - from > (end - begin) / 5000 && until - from > ((chart.view || view)[1] - (chart.view || view)[0]) / 50) all(from, until);
    };
    chart.ondblclick = () => all(begin, end);
  }
};
prepare();
