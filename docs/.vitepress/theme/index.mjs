import DefaultTheme from 'vitepress/theme'
import Diagram from './Diagram.vue'
import Recording from './Recording.vue'
import './contrast.css'
import './home.css'
import './tables.css'

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component('Diagram', Diagram)
    app.component('Recording', Recording)
  },
}
