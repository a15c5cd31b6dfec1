// Hands the page's modules to the browser, and starts the first. An import map must be there before any module is
// loaded, and names addresses only: so this is no module, and each of them becomes an address.
{
  const own = document.currentScript;

  /** @param {string} text base64 of gzip */
  const unpacked = (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  };

  /** @param {Record<string, string>} modules */
  const start = (modules) => {
    /** @type {Record<string, string>} */
    const imports = {};
    for (const [name, source] of Object.entries(modules)) {
      imports[name] = `data:text/javascript;charset=utf-8,${encodeURIComponent(source)}`;
    }
    const map = document.createElement("script");
    map.type = "importmap";
    map.nonce = own?.nonce ?? "";
    map.textContent = JSON.stringify({ imports });
    document.head.append(map);
    return import("tracebraid/main.js");
  };

  /** @param {unknown} error */
  const fail = (error) => {
    console.error(error);
    for (const element of document.querySelectorAll("[data-chart], [data-block]")) {
      if (!(element instanceof HTMLElement)) continue;
      element.dataset.state = "failed";
      const text = document.createElement("p");
      text.className = "failed";
      text.textContent =
        "This browser cannot run the scripts of this page: open it in a newer one (from 2023 on).";
      element.querySelector(".drawing, .grid")?.append(text);
    }
  };

  const packed = document.getElementById("modules")?.textContent ?? "";
  Promise.resolve(packed).then(unpacked).then(start).catch(fail);
}
