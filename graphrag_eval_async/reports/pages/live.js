// Patches the page with each snapshot, and keeps focus, scroll, order and filter of tables.
(function () {
  "use strict";
  // What only works with a script is hidden without it.
  document.documentElement.classList.add("scripted");
  // Order and filters outlast a visit to another page; where nothing can be stored, they are forgotten.
  const visit = `tables of ${location.pathname}`;
  let stored = {};
  try {
    stored = JSON.parse(sessionStorage.getItem(visit)) || {};
  } catch {}
  const order = new Map(stored.order);
  const filters = new Map(stored.filters);
  function store() {
    try {
      sessionStorage.setItem(visit, JSON.stringify({ order: [...order], filters: [...filters] }));
    } catch {}
  }

  const collator = new Intl.Collator("en", { numeric: true });

  function valueOf(row, column) {
    const cell = row.cells[column];
    if (!cell) return "";
    const text = cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent.trim();
    const number = Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text;
  }

  // Numbers before texts, and cells without a value last in either direction.
  function compare(one, other, sign) {
    if (one === "" || other === "") return (one === "") - (other === "");
    if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
    if (typeof one === "number") return sign * (one - other);
    return sign * collator.compare(one, other);
  }

  function sort(table) {
    const chosen = order.get(table.id);
    if (!chosen || !table.tHead || !table.tBodies.length) return;
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      if (column === chosen.column) cell.setAttribute("aria-sort", chosen.sign > 0 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    });
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const sorted = rows.map((row) => [valueOf(row, chosen.column), row]);
    sorted.sort((one, other) => compare(one[0], other[0], chosen.sign));
    // All at once: the place of a row among thousands is expensive to find.
    if (sorted.some(([, row], place) => row !== rows[place])) body.append(...sorted.map(([, row]) => row));
  }

  function filter(input) {
    const table = document.getElementById(input.dataset.table);
    if (!table) return;
    const tools = input.closest(".tools");
    const choice = tools.querySelector("input.choice:checked");
    const kind = choice ? choice.value : "all";
    const wanted = input.value.trim().toLowerCase();
    let shown = 0;
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) {
      const isOfKind = kind === "all" || row.dataset.kinds.split(" ").includes(kind);
      row.hidden = !isOfKind || (wanted !== "" && !row.textContent.toLowerCase().includes(wanted));
      if (!row.hidden) shown += 1;
    }
    const count = tools.querySelector(".count");
    const told = shown === rows.length ? "" : `${shown} of ${rows.length}`;
    if (count.textContent !== told) count.textContent = told;
  }

  const sortAll = (root) => root.querySelectorAll("table.sortable").forEach(sort);
  const filterAll = () => document.querySelectorAll("input.filter").forEach(filter);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.sort");
    if (!button) return;
    const heading = button.closest("th");
    const table = heading.closest("table");
    const known = order.get(table.id);
    const column = heading.cellIndex;
    const first = heading.classList.contains("num") ? -1 : 1;
    order.set(table.id, { column, sign: known && known.column === column ? -known.sign : first });
    sort(table);
    store();
  });
  document.addEventListener("input", (event) => {
    if (!event.target.matches("input.filter")) return;
    filter(event.target);
    filters.set(event.target.dataset.table, event.target.value);
    store();
  });

  // The rows of a table that are shown: failures, changed ones, or all.
  document.addEventListener("change", (event) => {
    if (event.target.matches("input.choice")) filter(event.target.closest(".tools").querySelector("input.filter"));
  });

  // A link to a result in a report opens it.
  function open() {
    const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (found && found.matches("details")) {
      found.open = true;
      found.scrollIntoView();
    }
  }
  window.addEventListener("hashchange", open);
  open();

  function keyOf(node) {
    return node.nodeType === 1 ? node.id || node.dataset.key || "" : "";
  }

  function attributes(old, fresh) {
    for (const { name } of [...old.attributes]) {
      const own = name === "open" || name === "hidden" || name === "aria-sort";
      if (!own && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  }

  // Makes `old` look like `fresh`, reusing its nodes by key, or else by place.
  function patch(old, fresh) {
    if (old.nodeType !== 1) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if ("keep" in old.dataset || old.isEqualNode(fresh)) return;
    attributes(old, fresh);
    const keyed = new Map();
    for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
    let place = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      const key = keyOf(wanted);
      let found = key ? keyed.get(key) : place;
      if (found && !key && keyOf(found)) found = null;
      if (found && (found.nodeType !== wanted.nodeType || found.nodeName !== wanted.nodeName)) found = null;
      if (!found) {
        old.insertBefore(wanted, place);
        continue;
      }
      if (found === place) place = place.nextSibling;
      else old.insertBefore(found, place);
      patch(found, wanted);
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  const address = document.body.dataset.events;
  if (address) {
    const main = document.getElementById("main");
    const connection = document.getElementById("connection");
    // A run that has ended, or was stopped, sends nothing more, and its connection may close.
    let ended = connection.dataset.ended === "yes";
    // A run that waits for lines says so itself.
    const isWaiting = () => Boolean(main.querySelector('#progress[data-phase="waiting for lines"]'));
    const say = (text, lost = false) => {
      if (connection.textContent !== text) connection.textContent = text;
      connection.classList.toggle("lost", lost);
    };
    const show = (html) => {
      const parsed = new DOMParser().parseFromString(html, "text/html");
      const fresh = document.createElement("main");
      fresh.id = "main";
      fresh.append(...parsed.body.childNodes);
      sortAll(fresh);
      const focused = document.activeElement;
      patch(main, fresh);
      filterAll();
      // A row that moves loses the focus.
      if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    };
    // A browser tries again by itself after a lost connection, but not after an answer such as 502 or 404.
    let wait = 1000;
    const connect = () => {
      const source = new EventSource(address);
      source.addEventListener("message", (event) => {
        show(JSON.parse(event.data));
        if (!ended) say(isWaiting() ? "Waiting" : "Live");
      });
      source.addEventListener("ended", (event) => {
        ended = true;
        say(event.data);
      });
      source.addEventListener("open", () => {
        // Another run may have begun at the same address.
        ended = false;
        wait = 1000;
      });
      source.addEventListener("error", () => {
        if (!ended) say("Connection lost; these numbers are old", true);
        if (source.readyState !== EventSource.CLOSED) return;
        setTimeout(connect, wait * (0.5 + Math.random()));
        wait = Math.min(2 * wait, 30000);
      });
    };
    connect();
  }
  // Paper cannot be opened: the worst results are printed in full, not hundreds of pages of them.
  addEventListener("beforeprint", () => {
    for (const each of [...document.querySelectorAll("details.detail")].slice(0, 20)) each.open = true;
  });
  for (const [table, text] of filters) {
    const input = document.querySelector(`input.filter[data-table="${CSS.escape(table)}"]`);
    if (input) input.value = text;
  }
  sortAll(document);
  filterAll();
})();
