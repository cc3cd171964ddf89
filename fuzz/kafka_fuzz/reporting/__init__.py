"""A night's campaign as files: JSON lines as the truth, and from them HTML, Markdown, JUnit and SARIF."""
