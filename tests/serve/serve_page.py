# SPDX-License-Identifier: Apache-2.0
"""The page at /: in Chromium (where there is one, with its driver and selenium), and as a plain form.

PAGE_SCREENSHOTS names a folder for pictures of it, to be looked at.
"""
import html
import os
import pathlib
import re
import shutil
import tempfile
import time
import unittest
import urllib.parse

from server import CONTEXT, QUESTION, Server

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
# Each would set document.title if anything of it were executed.
HOSTILE = ["<script>document.title='executed'</script>", "<img src=x onerror=\"document.title='executed'\">",
           "\"><svg onload=document.title='executed'>", "</textarea><script>document.title='executed'</script>",
           "'-(document.title='executed')-'", "{{nonce}}{{result}} javascript:document.title='executed'"]


class PlainForm(unittest.TestCase):
    """Without JavaScript, and what the page allows itself."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(models=["qa=qa", "similar=other", "kinds=kinds"])
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def send(self, **fields) -> str:
        status, headers, content = self.server.ask("/ask", urllib.parse.urlencode(fields),
                                                   headers={"Content-Type": "application/x-www-form-urlencoded"})
        self.assertEqual(status, 200, content)
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        return content.decode()

    def test_answer(self):
        context = "\u00c5da & <Hugo>: " + CONTEXT
        page = self.send(model="qa", question=QUESTION["question"], context=context)
        answer = self.server.json("/models/qa", {"inputs": {"question": QUESTION["question"], "context": context}})
        marked = (html.escape(context[:answer["start"]], quote=True) + "<mark>" +
                  html.escape(answer["answer"], quote=True) + "</mark>" + html.escape(context[answer["end"]:], quote=True))
        self.assertIn(marked.replace("&#x27;", "&#39;"), page)
        self.assertIn(f'value="{QUESTION["question"]}"', page)

    def test_other_tasks(self):
        self.assertIn("good", self.send(model="kinds", question="", context="hello"))
        self.assertRegex(self.send(model="similar", question="", context="hello"), r"<pre>\[-?\d")

    def test_the_form_can_be_sent_without_a_question(self):
        """Most tasks have none, and without JavaScript the browser does not know which model is for which task."""
        self.assertNotIn("required", re.search('<input id="question"[^>]*>', self.server.ask("/")[2].decode())[0])

    def test_refusals(self):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for body, headers, status, words in [
                ("model=qa&context=a&question=b", {"Content-Type": "application/json"}, 415, "x-www-form-urlencoded"),
                ("model=qa&context=a&question=b", {"Content-Type": "multipart/form-data"}, 415, "x-www-form-urlencoded"),
                ("model=qa&question=Who&context=a%00b", form, 400, "NUL"), (b"model=qa&question=Who&context=a\0b", form, 400, "NUL"),
                ("model=qa&question=Who", form, 400, "context"), ("model=qa&context=a", form, 400, "question")]:
            found, _, content = self.server.ask("/ask", body, headers=headers)
            self.assertEqual((found, words in content["error"]["message"]), (status, True), content)

    def test_nothing_is_markup(self):
        for text in HOSTILE:
            page = self.send(model="qa", question=text, context=CONTEXT + text)
            body = page[page.index("<body>"):page.index("<script nonce")]
            for tag in ("<script", "<img", "<svg"):
                self.assertNotIn(tag, body)
            self.assertEqual(body.count("</textarea>"), 1)
            self.assertIn(html.escape(text).replace("&#x27;", "&#39;"), body)

    def test_policy(self):
        _, headers, content = self.server.ask("/")
        policy = headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        nonce = re.search("'nonce-([0-9a-f]{32})'", policy)[1]
        self.assertIn(f'<script nonce="{nonce}">', content.decode())
        self.assertNotEqual(nonce, re.search("'nonce-([0-9a-f]{32})'", self.server.ask("/")[1]["Content-Security-Policy"])[1])
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(re.findall(r"(?:https?:)?//[a-z]", re.sub(r"^ *//.*$", "", content.decode(), flags=re.M)), [])


@unittest.skipUnless(webdriver and shutil.which("chromium") and shutil.which("chromedriver"),
                     "needs chromium, chromium-driver and python3-selenium")
class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(models=["qa=qa", "similar=other", "kinds=kinds", f"tags={GOLDEN}/tags", f"masks={GOLDEN}/fill"])
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.binary_location = shutil.which("chromium")
        service = webdriver.chrome.service.Service(shutil.which("chromedriver"))
        cls.driver = webdriver.Chrome(options=options, service=service)
        cls.addClassCleanup(cls.driver.quit)

    def setUp(self):
        self.driver.get("about:blank")
        self.open("")

    def tearDown(self):
        messages = [entry["message"] for entry in self.driver.get_log("browser")
                    if entry["level"] == "SEVERE" and "status of 4" not in entry["message"]]
        self.assertEqual(messages, [])

    def open(self, fragment: str):
        self.driver.get(f"http://127.0.0.1:{self.server.port}/{fragment}")

    def find(self, name: str):
        return self.driver.find_element(By.ID, name)

    def ask(self, context: str, question: str, *, by_key: bool = False) -> str:
        for name, text in (("context", context), ("question", question)):
            self.driver.execute_script("arguments[0].value = arguments[1]", self.find(name), text)
        if by_key:
            self.find("context").send_keys(Keys.CONTROL, Keys.ENTER)
        else:
            self.find("ask").click()
        return self.result()

    def result(self) -> str:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            text = self.find("result").text
            if re.search(r"\d ms$", text) or self.driver.find_elements(By.CSS_SELECTOR, "#result .bad"):
                return text
            time.sleep(0.02)
        raise AssertionError(self.find("result").text)

    def test_answer_is_highlighted(self):
        for context in (CONTEXT, "\U0001d400\u00e9 " + CONTEXT):
            expected = self.server.json("/models/qa", {"inputs": {"question": "Who?", "context": context},
                                                       "parameters": {"top_k": 3}})
            self.ask(context, "Who?", by_key=context == CONTEXT)
            self.assertEqual(self.driver.find_element(By.CSS_SELECTOR, "#result mark").text, expected[0]["answer"])
            self.assertEqual(self.driver.find_element(By.CSS_SELECTOR, "#result .text").text, context)
            lines = [line.text for line in self.driver.find_elements(By.CSS_SELECTOR, "#result li")]
            self.assertEqual(lines, [f"{100 * row['score']:.1f} % {row['answer']}" for row in expected])
        self.driver.find_element(By.CSS_SELECTOR, "#request summary").click()
        self.assertIn('"top_k": 3', self.find("json").text)
        self.assertIn(f"curl http://127.0.0.1:{self.server.port}/models/qa", self.find("curl").text)

    def test_tabs(self):
        self.find("tab-question-answering").send_keys(Keys.ARROW_RIGHT)
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("id"), "tab-text-classification")
        self.assertEqual(self.find("model").get_attribute("value"), "kinds")
        text = self.ask("hello world", "")
        self.assertEqual(sorted(re.findall(r"% (\w+)", text)), ["bad", "good", "none"])
        self.find("tab-token-classification").click()
        self.assertFalse(self.find("question").is_displayed())
        context = "Caf\u00e9 in Paris <b> is good! \U0001d400 \u4e2d the un dog"
        self.ask(context, "")
        expected = self.server.json("/models/tags", {"inputs": context})
        marks = [mark.text for mark in self.driver.find_elements(By.CSS_SELECTOR, "#result mark")]
        self.assertEqual(marks, [entity["word"] for entity in expected])
        self.assertGreater(len(marks), 1)
        self.find("tab-fill-mask").click()
        text = self.ask("the [MASK] dog [MASK]", "")
        words = self.server.json("/models/masks", {"inputs": "the [MASK] dog [MASK]", "parameters": {"top_k": 3}})
        for word in words[0] + words[1]:
            self.assertIn(f"{100 * word['score']:.1f} % {word['token_str']}", text)
        self.find("tab-feature-extraction").click()
        self.assertTrue(self.find("question").is_displayed())
        lines = self.ask("Rita lived in Rome\n\nhello world", "hello world").splitlines()
        self.assertIn("1.000 hello world", lines[1])
        self.assertIn("Rita lived in Rome", lines[2])

    def test_address_has_the_state(self):
        self.ask("Ada & Hugo # lived = here", "Who?")
        address = self.driver.current_url
        self.assertEqual(address.partition("#")[0], f"http://127.0.0.1:{self.server.port}/")
        self.driver.get("about:blank")
        self.driver.get(address)
        self.assertEqual(self.find("context").get_attribute("value"), "Ada & Hugo # lived = here")
        self.assertEqual(self.find("question").get_attribute("value"), "Who?")

    def test_nothing_is_executed(self):
        for text in HOSTILE:
            self.ask(CONTEXT + text, text)
            self.assertEqual(self.driver.title, "Berth")
            self.assertEqual(self.driver.find_element(By.CSS_SELECTOR, "#result .text").text, CONTEXT + text)
            self.open("#" + urllib.parse.urlencode({"task": text, "context": text, "question": text, "model": text}))
            self.assertEqual(self.find("context").get_attribute("value"), text)
            self.assertEqual(self.driver.title, "Berth")
        # What is sent as a plain form comes back as a page.
        for text in HOSTILE:
            self.open("")
            self.driver.execute_script(
                "const form = document.getElementById('form'); form.context.value = arguments[0];"
                "form.question.value = arguments[0]; HTMLFormElement.prototype.submit.call(form)", text)
            end = time.monotonic() + 20
            while not self.driver.current_url.endswith("/ask") and time.monotonic() < end:
                time.sleep(0.02)
            self.assertTrue(self.driver.current_url.endswith("/ask"))
            self.assertEqual(self.driver.find_element(By.CSS_SELECTOR, "#result .text").text, text)
            self.assertEqual(self.driver.title, "Berth")

    def test_bars_of_cosines_begin_at_0(self):
        self.find("tab-feature-extraction").click()
        self.ask("Rita lived in Rome\n\nhello world", "hello world")
        items = self.driver.find_elements(By.CSS_SELECTOR, "#result li")
        for item in items:
            meter, shown = item.find_element(By.TAG_NAME, "meter"), item.find_element(By.TAG_NAME, "span")
            self.assertEqual(float(meter.get_attribute("min")), 0)
            self.assertAlmostEqual(float(meter.get_attribute("value")), max(float(shown.text), 0), delta=6e-4)
        self.assertEqual(len(items), 2)

    def test_begins_with_an_example(self):
        self.assertIn("bridge", self.find("context").get_attribute("value"))
        self.find("tab-fill-mask").click()  # nothing was typed: that of the task
        self.assertIn("[MASK]", self.find("context").get_attribute("value"))
        self.driver.execute_script("arguments[0].value = 'mine'", self.find("context"))
        self.find("tab-question-answering").click()
        self.assertEqual(self.find("context").get_attribute("value"), "mine")

    def test_one_task_has_no_tabs_and_a_key_is_asked_for_where_it_is_needed(self):
        self.assertTrue(self.find("tabs").is_displayed())
        self.assertFalse(self.find("key").is_displayed())
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("secret\n")
            file.flush()
            with Server("--api_key_file", file.name, models=["qa=qa"]) as server:
                self.driver.get(f"http://127.0.0.1:{server.port}/")
                self.assertFalse(self.find("tabs").is_displayed())
                self.assertFalse(self.find("key").is_displayed())
                self.ask(CONTEXT, "Who?")
                self.assertTrue(self.find("key").is_displayed())
                self.find("key").send_keys("secret")
                self.find("ask").click()
                end = time.monotonic() + 30
                while not self.driver.find_elements(By.CSS_SELECTOR, "#result mark") and time.monotonic() < end:
                    time.sleep(0.02)
                self.assertTrue(self.driver.find_elements(By.CSS_SELECTOR, "#result mark"))

    def test_error_is_shown(self):
        self.assertIn("no words", self.ask("\u200b", "Who?"))

    def test_names_for_everyone(self):
        for field in self.driver.find_elements(By.CSS_SELECTOR, "input, textarea, select"):
            self.assertTrue(self.driver.find_elements(By.CSS_SELECTOR, f"label[for={field.get_attribute('id')}]"))
        self.assertEqual(self.find("result").get_attribute("aria-live"), "polite")

    def test_widths_and_themes(self):
        folder = os.environ.get("PAGE_SCREENSHOTS")
        long = {"task": "question-answering", "question": "When was the bridge opened?",
                "context": "The bridge at Tamsel was designed by Irma Brandt and opened on 4 June 1921. " * 3 + "x" * 300}
        for theme in ("light", "dark"):
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": theme}]})
            for width in (360, 1000):
                self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                    "width": width, "height": 1100, "deviceScaleFactor": 1, "mobile": width < 500})
                self.driver.get("about:blank")
                self.open("#" + urllib.parse.urlencode(long))
                self.find("ask").click()
                self.result()
                self.assertLessEqual(self.driver.execute_script("return document.documentElement.scrollWidth"), width)
                if folder:
                    self.driver.save_screenshot(str(pathlib.Path(folder) / f"page-{theme}-{width}.png"))
        ground = self.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        self.assertEqual(ground, "rgb(20, 23, 28)")
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


if __name__ == "__main__":
    unittest.main()
