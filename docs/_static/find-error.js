// The index of error messages finds a pasted text as `distcheck explain` does: a message counts by the characters that it
// shares with the text, its parts in order, and … stands for anything; where none stands there literally, the messages
// whose words do are taken.
(function () {
  "use strict";
  const SHORTEST = 6; // characters: shorter parts are in every text
  const MOST = 12;
  const normal = (text) => text.toLowerCase().split(/\s+/).join(" ").trim();
  const words = (text) => new Set(text.toLowerCase().match(/[a-z_]{3,}/g) || []);

  function literally(message, wanted) {
    const parts = normal(message).split("…").map((part) => part.trim()).filter((part) => part.length >= SHORTEST);
    let place = 0;
    for (const part of parts) {
      place = wanted.indexOf(part, place);
      if (place < 0) return 0;
      place += part.length;
    }
    return parts.join("").length;
  }

  function nearly(message, wanted, wantedWords) {
    if (wanted.length >= SHORTEST && normal(message).includes(wanted)) return wanted.length;
    const all = [...words(message)];
    const shared = all.filter((word) => wantedWords.has(word));
    return shared.length >= 3 && 4 * shared.length >= 3 * all.length ? shared.join("").length / 2 : 0;
  }

  document.addEventListener("DOMContentLoaded", function () {
    const lead = document.querySelector(".error-finder");
    const items = Array.from(document.querySelectorAll("article li")).filter((item) => item.querySelector("code"));
    if (!lead || !items.length) return;
    const entries = items.map((item) => ({ item, text: item.querySelector("code").textContent }));
    const box = document.createElement("textarea");
    box.className = "error-box";
    box.rows = 3;
    box.placeholder = "Paste the error message here";
    box.setAttribute("aria-label", box.placeholder);
    const list = document.createElement("ul");
    list.className = "error-matches";
    list.setAttribute("aria-live", "polite");
    lead.before(box, list);
    box.addEventListener("input", find);
    // errors.html?text=… can be linked to
    box.value = new URLSearchParams(window.location.search).get("text") || "";
    if (box.value) find();

    function find() {
      const wanted = normal(box.value);
      const wantedWords = words(wanted);
      const ranked = (points) =>
        entries
          .map((entry) => ({ entry, points: wanted ? points(entry.text) : 0 }))
          .filter((one) => one.points > 0)
          .sort((a, b) => b.points - a.points);
      let found = ranked((text) => literally(text, wanted));
      if (!found.length) found = ranked((text) => nearly(text, wanted, wantedWords));
      list.replaceChildren(...found.slice(0, MOST).map((one) => one.entry.item.cloneNode(true)));
      if (wanted.length >= SHORTEST && !found.length) {
        const none = document.createElement("li");
        none.textContent = "No rule knows this text. Try the one line that names the error; distcheck log reads a whole log.";
        list.replaceChildren(none);
      }
    }
  });
})();
